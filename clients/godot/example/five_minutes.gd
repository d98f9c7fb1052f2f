## Hold any key for three seconds: each tick that it is held is a point. Then the run is submitted, and the board shown.
extends Label

const BOARD := "held"
const BUILD := "held-1"
const TICKS := 180

var _run := {}
var _recorder: ScoregateRecorder
var _score := 0


func _ready() -> void:
	set_physics_process(false)
	var player := await Scoregate.create_player("Ada")
	var opened := await Scoregate.open_run(BOARD, BUILD)
	if not player.is_ok or not opened.is_ok:
		text = opened.detail
		return
	_run = opened.document
	_recorder = ScoregateRecorder.new(int(_run["checkpoint_ticks"]))
	text = "Hold any key"
	set_physics_process(true)


func _physics_process(_delta: float) -> void:
	var is_held := Input.is_anything_pressed()
	_recorder.tick(int(is_held))
	_score += int(is_held)
	if _recorder.is_due():
		_recorder.checkpoint(_score)
	if _recorder.ticks == TICKS:
		set_physics_process(false)
		_submit()


func _submit() -> void:
	var recording := _recorder.finish()
	if not Scoregate.queue.submit_later(_run, _score, TICKS, {}, recording):
		text = "The run could not be written down."
		return
	for outcome in await Scoregate.queue.flush():
		if outcome["outcome"] == "accepted":
			await Scoregate.wait_until_settled(outcome["answer"].document["submission"])
	var page := await Scoregate.entries(BOARD, {"limit": 10})
	text = "The run waits until the network is back." if not page.is_ok else ""
	for entry in page.document.get("entries", []):
		text += "%d. %s %d\n" % [entry["rank"], entry["name"], entry["score"]]
