## Writes what a run claims. Its bytes are signed, and must never change between two attempts.
class_name ScoregateClaims
extends RefCounted

const ESCAPES := {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


## The body of a submission. `stats` are ints by name, in the order in which they are sent; `recording` is empty on a
## board that replays nothing. A commit sends the digest alone.
static func body(
	score: int, ticks: int, stats: Dictionary, recording: PackedByteArray, is_commit: bool
) -> PackedByteArray:
	var written := []
	for name in stats:
		written.append("%s:%d" % [quoted(name), stats[name]])
	var text := '{"score":%d,"ticks":%d,"stats":{%s}' % [score, ticks, ",".join(written)]
	if is_commit:
		text += (
			',"recording_digest":"sha256:%s","recording_bytes":%d'
			% [ScoregateSigning.sha256(recording).hex_encode(), recording.size()]
		)
	elif recording.size() > 0:
		text += ',"recording":"%s"' % Marshalls.raw_to_base64(recording)
	return (text + "}").to_utf8_buffer()


## A text as JSON writes it.
static func quoted(text: String) -> String:
	var written := ""
	for at in range(text.length()):
		var code := text.unicode_at(at)
		if code in ESCAPES:
			written += ESCAPES[code]
		elif code < 32:
			written += "\\u%04x" % code
		else:
			written += text.substr(at, 1)
	return '"%s"' % written


## The seed of a run. It has 64 bits without a sign; the int has the same bits.
static func seed_of(digits: String) -> int:
	var number := 0
	for at in range(digits.length()):
		number = number * 10 + digits.unicode_at(at) - 48
	return number
