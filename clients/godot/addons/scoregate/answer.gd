## What came of a request: the document of an answer, or why there is none.
class_name ScoregateAnswer
extends RefCounted

const PROBLEMS := "https://scoregate.dev/problems/"
const BUSY := [408, 425, 429, 500, 502, 503, 504]
## A refusal with one of these says nothing about the run itself.
const NOT_FINAL := [401, 408, 421, 425, 429]
## The end of the year 9999.
const LATEST_S := 253402300799

## True if the gateway did what was asked.
var is_ok := false
## The status of HTTP; 0 without an answer.
var status := 0
## The stable name of the problem, such as "run-expired"; "" without one.
var reason := ""
## Why, for people.
var detail := ""
## The JSON of the answer, or of the problem.
var document := {}
## The bytes of the answer.
var content := PackedByteArray()
## When to ask again, in seconds; -1 if it was not said.
var retry_after_s := -1
## The gateway's time in Unix seconds; 0 if it was not said.
var server_time := 0
## False if no byte of the request can have been sent.
var was_sent := true


## Reads an answer. `member` is one that every answer of this kind has; "" means that the answer may be empty.
func read(code: int, fields: Dictionary, received: PackedByteArray, member: String) -> void:
	status = code
	content = received
	if fields.get("retry-after", "").is_valid_int():
		retry_after_s = int(fields["retry-after"])
	var read_json = JSON.parse_string(received.get_string_from_utf8())
	if code >= 200 and code < 300:
		if read_json is Dictionary:
			document = read_json
		is_ok = member == "" or document.has(member)
		if not is_ok:
			detail = "the answer is not a gateway's"
		return
	detail = "HTTP status %d" % code
	if fields.get("content-type", "").begins_with("application/problem+json"):
		read_problem(read_json)


func read_problem(problem) -> void:
	if not problem is Dictionary or not problem.get("type") is String:
		return
	if not problem["type"].begins_with(PROBLEMS):
		return
	document = problem
	reason = problem["type"].trim_prefix(PROBLEMS)
	if problem.get("detail") is String:
		detail = problem["detail"]
	elif problem.get("title") is String:
		detail = problem["title"]
	if problem.get("server_time") is float or problem.get("server_time") is int:
		server_time = int(clampf(problem["server_time"], 0, LATEST_S))


## True if the gateway may do it the next time.
func is_busy() -> bool:
	return status == 0 or status in BUSY


## True if this is the gateway's last word on a run. A proxy's, a hotel's and a busy gateway's is not.
func is_final() -> bool:
	if is_ok:
		return true
	return reason != "" and status >= 400 and status < 500 and not status in NOT_FINAL
