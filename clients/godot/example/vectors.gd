## Signs and encodes the shared vectors: godot --headless --path clients/godot --script example/vectors.gd
extends SceneTree

var _failures := 0


func _init() -> void:
	for vector: Dictionary in _vectors("signatures.json"):
		if vector["algorithm"] == "hmac-sha256":
			_sign(vector)
	for vector: Dictionary in _vectors("recordings.json"):
		_record(vector)
	for vector: Dictionary in _vectors("claims.json"):
		_claim(vector)
	print("%d vectors failed" % _failures)
	quit(mini(_failures, 1))


func _vectors(file: String) -> Array:
	var folder := ProjectSettings.globalize_path("res://").path_join("../vectors")
	return JSON.parse_string(FileAccess.get_file_as_string(folder.path_join(file)))


func _sign(vector: Dictionary) -> void:
	var body := Marshalls.base64_to_raw(vector["body"])
	var signed := ScoregateSigning.sign(vector, body, Marshalls.base64_to_raw(vector["key"]))
	_expect(vector, vector["signature"], signed["Signature"])


func _record(vector: Dictionary) -> void:
	var recorder := ScoregateRecorder.new(int(vector["checkpoint_ticks"]))
	var hashes: Array = vector["checkpoints"].duplicate()
	for stretch: Array in vector["inputs"]:
		for at in range(int(stretch[0])):
			recorder.tick(int(stretch[1]))
			if recorder.is_due():
				recorder.checkpoint(hashes.pop_front().hex_to_int())
	_expect(vector, vector["recording"], recorder.finish().hex_encode())


func _claim(vector: Dictionary) -> void:
	var stats := {}
	for stat: Array in vector["stats"]:
		stats[stat[0]] = int(stat[1])
	var recording := Marshalls.base64_to_raw(vector["recording"])
	var body := ScoregateClaims.body(
		int(vector["score"]), int(vector["ticks"]), stats, recording, vector["committed"]
	)
	_expect(vector, vector["body"], Marshalls.raw_to_base64(body))


func _expect(vector: Dictionary, expected: String, made: String) -> void:
	if expected != made:
		_failures += 1
		printerr("%s: expected %s, got %s" % [vector["name"], expected, made])
