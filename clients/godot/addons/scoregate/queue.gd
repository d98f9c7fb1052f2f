## Runs that are sent later. An entry is a file in `user://scoregate`; it is removed only when the gateway has said its
## last word on it. It has the key of its run, not the player's token.
class_name ScoregateQueue
extends RefCounted

const MOST := 100
const KEPT_S := 7 * 24 * 3600
## After these the rest waits for the next flush: there is no gateway, or it has enough to do.
const HOLDS_UP_ALL := [0, 429, 503]
## A board may ask for a recording long after the run, and then gives up to 30 days to send it.
const RECORDING_KEPT_S := 60 * 24 * 3600

## Where entries lie.
var folder := "user://scoregate"

var _client: Node
var _is_flushing := false


func _init(client: Node) -> void:
	_client = client


## Write a run down. False if it cannot be written, or if a hundred wait: none is dropped for it.
func submit_later(
	run: Dictionary,
	score: int,
	ticks: int,
	stats: Dictionary,
	recording := PackedByteArray(),
	is_commit := false
) -> bool:
	DirAccess.make_dir_recursive_absolute(folder)
	var names := waiting()
	if names.size() >= MOST and _unsent(names) >= MOST:
		return false
	var body := ScoregateClaims.body(score, ticks, stats, recording, is_commit)
	var mark := ScoregateSigning.sha256(run["ticket"].to_utf8_buffer()).hex_encode().substr(0, 8)
	for name in names:
		if name.contains(mark) and _read(name).get("body") == body.get_string_from_utf8():
			return true
	var entry := {
		"version": 1,
		"board": run["board"],
		"ticket": run["ticket"],
		"key": run["key"],
		"body": body.get_string_from_utf8(),
		"written_at": _client.transport.now_s(),
	}
	if is_commit:
		entry["recording"] = Marshalls.raw_to_base64(recording)
	var at_ms := int(Time.get_unix_time_from_system() * 1000)
	while "%013d-%s.json" % [at_ms, mark] in names:
		at_ms += 1
	return _write("%013d-%s.json" % [at_ms, mark], entry)


## The names of the entries that wait, oldest first.
func waiting() -> PackedStringArray:
	var names := PackedStringArray()
	for name in DirAccess.get_files_at(folder):
		if name.ends_with(".json"):
			names.append(name)
	names.sort()
	return names


## How many entries are still to be sent: recordings that are only kept fill no queue.
func _unsent(names: PackedStringArray) -> int:
	var count := 0
	for name in names:
		if not _read(name).has("submission"):
			count += 1
	return count


## Send what waits, and return the outcomes in order: {name, ticket, outcome, answer}. `outcome` is "accepted",
## "refused", "kept", "expired" or "damaged"; for committed runs that the gateway has also "held", "revealed" and
## "settled". Call it after a run, when the game starts, and when the network is back.
func flush() -> Array:
	var outcomes := []
	if _is_flushing:
		return outcomes
	_is_flushing = true
	var is_offline := false
	for name in waiting():
		var outcome := await _send(name, is_offline)
		var answer: ScoregateAnswer = outcome.get("answer")
		is_offline = is_offline or (answer != null and answer.status in HOLDS_UP_ALL)
		outcomes.append(outcome)
	_is_flushing = false
	return outcomes


## Send one entry, unless no gateway was reached before: then only what is too old or damaged goes.
func _send(name: String, is_offline: bool) -> Dictionary:
	var entry := _read(name)
	if not _is_entry(entry):
		return _set_aside(name)
	var told := {"name": name, "ticket": entry["ticket"], "outcome": "kept"}
	var most_s := RECORDING_KEPT_S if entry.has("submission") else KEPT_S
	if _client.transport.now_s() - entry["written_at"] > most_s:
		return _dropped(told, "expired")
	if is_offline:
		return told
	if entry.has("submission"):
		return await _look_after(told, entry)
	var answer: ScoregateAnswer = await _client.send_claim(
		entry["board"], entry["ticket"], entry["key"], entry["body"].to_utf8_buffer()
	)
	told["answer"] = answer
	if not answer.is_final():
		return told
	if not answer.is_ok:
		return _dropped(told, "refused")
	if not entry.has("recording"):
		return _dropped(told, "accepted")
	entry["submission"] = answer.document["submission"]
	entry.erase("body")
	entry.erase("key")
	if _write(name, entry):
		told["outcome"] = "accepted"
	return told


## Keep a damaged entry where it blocks nothing, unless it only cannot be read now.
func _set_aside(name: String) -> Dictionary:
	if FileAccess.get_open_error() != OK:
		return {"name": name, "outcome": "kept"}
	DirAccess.rename_absolute(folder.path_join(name), folder.path_join(name + ".damaged"))
	return {"name": name, "outcome": "damaged"}


## A committed run is with the gateway; its recording is kept until nobody can ask for it.
func _look_after(told: Dictionary, entry: Dictionary) -> Dictionary:
	var answer: ScoregateAnswer = await _client.submission(entry["submission"])
	told["answer"] = answer
	if not answer.is_final():
		return told
	told["outcome"] = "held"
	if not answer.is_ok:
		return told  # another player's, who may come back
	var state = answer.document.get("state")
	if answer.document.get("reveal_by"):
		var recording := Marshalls.base64_to_raw(entry["recording"])
		told["answer"] = await _client.reveal(entry["submission"], recording)
		told["outcome"] = "revealed" if told["answer"].is_ok else "kept"
	elif answer.document.get("verified") or state in ["rejected", "revoked", "superseded"]:
		return _dropped(told, "settled")
	return told


func _dropped(told: Dictionary, outcome: String) -> Dictionary:
	if DirAccess.remove_absolute(folder.path_join(told["name"])) == OK:
		told["outcome"] = outcome
	return told


static func _is_entry(entry: Dictionary) -> bool:
	if entry.get("version") != 1 or not entry.get("ticket") is String:
		return false
	if not entry.get("board") is String or not entry.get("written_at") is float:
		return false
	if entry.has("submission"):
		return entry["submission"] is String and entry.get("recording") is String
	if not entry.get("body") is String or not entry.get("key") is String:
		return false
	return Marshalls.base64_to_raw(entry["key"]).size() == 32


func _read(name: String) -> Dictionary:
	var json := JSON.new()
	if json.parse(FileAccess.get_file_as_string(folder.path_join(name))) != OK:
		return {}
	return json.data if json.data is Dictionary else {}


## Write beside and rename, so that an entry is whole or not there.
func _write(name: String, entry: Dictionary) -> bool:
	var part := folder.path_join(name + ".part")
	var file := FileAccess.open(part, FileAccess.WRITE)
	if file == null:
		return false
	file.store_string(JSON.stringify(entry))
	file.flush()
	var is_written := file.get_error() == OK
	file.close()
	return is_written and DirAccess.rename_absolute(part, folder.path_join(name)) == OK
