## Sends requests by Godot's HTTPRequest. Replace it for another platform, or in your tests: `send` is all of it.
class_name ScoregateTransport
extends Node

const ATTEMPT_S := 15.0


## Sends a request, and returns {status, fields, body, was_sent}: `fields` by name in lower case, and status 0
## without an answer.
func send(method: String, url: String, headers: Dictionary, body: PackedByteArray) -> Dictionary:
	var request := HTTPRequest.new()
	request.timeout = ATTEMPT_S
	request.max_redirects = 0
	request.accept_gzip = false
	add_child(request)
	var lines := PackedStringArray()
	for field: String in headers:
		lines.append("%s: %s" % [field, headers[field]])
	var error := request.request_raw(url, lines, _method(method), body)
	if error != OK:
		request.queue_free()
		return {"status": 0, "fields": {}, "body": PackedByteArray(), "was_sent": false}
	var answer: Array = await request.request_completed
	request.queue_free()
	var is_answered: bool = (
		answer[0] == HTTPRequest.RESULT_SUCCESS
		or answer[0] == HTTPRequest.RESULT_REDIRECT_LIMIT_REACHED
	)
	return {
		"status": answer[1] if is_answered else 0,
		"fields": _fields(answer[2]),
		"body": answer[3],
		"was_sent":
		not answer[0] in [HTTPRequest.RESULT_CANT_CONNECT, HTTPRequest.RESULT_CANT_RESOLVE],
	}


func wait(seconds: float) -> void:
	await get_tree().create_timer(seconds, true, false, true).timeout


func now_s() -> int:
	return int(Time.get_unix_time_from_system())


func nonce() -> String:
	var bytes := Crypto.new().generate_random_bytes(18)
	return Marshalls.raw_to_base64(bytes).replace("+", "-").replace("/", "_")


static func _method(method: String) -> HTTPClient.Method:
	match method:
		"POST":
			return HTTPClient.METHOD_POST
		"PUT":
			return HTTPClient.METHOD_PUT
		"DELETE":
			return HTTPClient.METHOD_DELETE
	return HTTPClient.METHOD_GET


static func _fields(lines: PackedStringArray) -> Dictionary:
	var fields := {}
	for line in lines:
		var colon := line.find(":")
		if colon > 0:
			fields[line.substr(0, colon).to_lower()] = line.substr(colon + 1).strip_edges()
	return fields
