## The live feed of a board. It connects again by itself, after the last event that it had.
class_name ScoregateFeed
extends Node

## `kind` is begin or reset (read the board now), standing, rank or overtaken; `data` is what the HTTP reference lists.
signal event(kind: String, data: Dictionary)

const SILENCE_S := 45.0
const FIRST_WAIT_S := 0.5
const LONGEST_WAIT_S := 30.0

var _url: String
var _http := HTTPClient.new()
var _is_asked := false
var _last_id := ""
var _buffer := PackedByteArray()
var _lines: Dictionary = {}
var _silent_s := 0.0
var _wait_s := 0.0
var _pause_s := FIRST_WAIT_S


func _init(url: String) -> void:
	_url = url


func _ready() -> void:
	_connect()


func _exit_tree() -> void:
	_http.close()


func _process(delta: float) -> void:
	if _wait_s > 0:
		_wait_s -= delta
		if _wait_s <= 0:
			_connect()
		return
	_silent_s += delta
	_http.poll()
	match _http.get_status():
		HTTPClient.STATUS_CONNECTED:
			if _is_asked:
				_lose()
			else:
				_ask()
		HTTPClient.STATUS_BODY:
			if _http.get_response_code() == 200:
				_take(_http.read_response_body_chunk())
			else:
				_lose()
		HTTPClient.STATUS_RESOLVING, HTTPClient.STATUS_CONNECTING, HTTPClient.STATUS_REQUESTING:
			pass
		_:
			_lose()
	if _silent_s > SILENCE_S:
		_lose()


func _connect() -> void:
	var rest := _url.get_slice("://", 1)
	var host := rest.get_slice("/", 0)
	var is_safe := _url.begins_with("https://")
	var port := 443 if is_safe else 80
	var colon := host.rfind(":")
	if colon > host.rfind("]"):
		port = int(host.substr(colon + 1))
		host = host.substr(0, colon)
	_http = HTTPClient.new()
	_is_asked = false
	_silent_s = 0
	_buffer.clear()
	_lines = {}
	if _http.connect_to_host(host, port, TLSOptions.client() if is_safe else null) != OK:
		_lose()


func _ask() -> void:
	_is_asked = true
	var headers := PackedStringArray(["Accept: text/event-stream"])
	if _last_id:
		headers.append("Last-Event-ID: " + _last_id)
	var rest := _url.get_slice("://", 1)
	if _http.request(HTTPClient.METHOD_GET, rest.substr(rest.find("/")), headers) != OK:
		_lose()


func _lose() -> void:
	_http.close()
	_wait_s = _pause_s * randf_range(0.5, 1.0)
	_pause_s = minf(_pause_s * 2, LONGEST_WAIT_S)


func _take(received: PackedByteArray) -> void:
	if received.size() > 0:
		_silent_s = 0
	_buffer.append_array(received)
	var end := _buffer.find(10)
	while end >= 0:
		_take_line(_buffer.slice(0, end).get_string_from_utf8().trim_suffix("\r"))
		_buffer = _buffer.slice(end + 1)
		end = _buffer.find(10)


func _take_line(line: String) -> void:
	if line == "":
		_take_event()
		return
	var colon := line.find(":")
	if colon > 0:
		_lines[line.substr(0, colon)] = line.substr(colon + 1).trim_prefix(" ")


func _take_event() -> void:
	var lines := _lines
	_lines = {}
	if lines.has("id"):
		_last_id = lines["id"]
	if not lines.has("event"):
		return
	_pause_s = FIRST_WAIT_S
	var data = JSON.parse_string(lines.get("data", "{}"))
	event.emit(lines["event"], data if data is Dictionary else {})
