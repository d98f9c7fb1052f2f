## Records the inputs of a run, tick by tick, with a hash of the game's state every so many ticks.
## Call `tick` in `_physics_process`, then `checkpoint` if `is_due()`, and `finish` at the end.
class_name ScoregateRecorder
extends RefCounted

const WORD_LIMIT := 4294967296

var error := ""
var ticks := 0
var checkpoint_ticks := 0
var lengths := []
var words := []
var checkpoints := []


## Begins a recording. `interval` is the run's `checkpoint_ticks`; 0 means no checkpoints.
func _init(interval := 0) -> void:
	checkpoint_ticks = interval
	if interval < 0 or interval >= WORD_LIMIT:
		error = "checkpoint_ticks is 0 to 2^32 - 1"


## Records the input of the next tick, a word of 32 bits.
func tick(word: int) -> void:
	if word < 0 or word >= WORD_LIMIT:
		error = "inputs are 0 to 2^32 - 1"
	elif is_due():
		error = "a checkpoint is missing"
	if error != "":
		return
	if words.size() > 0 and words[-1] == word:
		lengths[-1] += 1
	else:
		lengths.append(1)
		words.append(word)
	ticks += 1


## True if the state has to be hashed now, before the next tick.
func is_due() -> bool:
	return checkpoint_ticks > 0 and checkpoints.size() < ticks / checkpoint_ticks


## Records the hash of the game's state: an int of 64 bits, whose sign does not matter.
func checkpoint(state_hash: int) -> void:
	if error == "" and not is_due():
		error = "no checkpoint is due"
	checkpoints.append(state_hash)


## The recording; empty if something was recorded wrongly: `error` says what.
func finish() -> PackedByteArray:
	if error == "" and ticks == 0:
		error = "a run has one tick at least"
	elif error == "" and is_due():
		error = "a checkpoint is missing"
	if error != "":
		return PackedByteArray()
	var recording := PackedByteArray()
	recording.append_array("SGR1".to_utf8_buffer())
	put_varint(recording, ticks)
	put_varint(recording, checkpoint_ticks)
	put_varint(recording, words.size())
	for at in range(words.size()):
		put_varint(recording, lengths[at])
		put_varint(recording, words[at])
	for state_hash in checkpoints:
		for shift in range(0, 64, 8):
			recording.append((state_hash >> shift) & 255)
	return recording


static func put_varint(to: PackedByteArray, number: int) -> void:
	while number > 127:
		to.append((number & 127) | 128)
		number = number >> 7
	to.append(number)
