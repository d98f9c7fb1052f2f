## The client of a Scoregate gateway: players, runs, scores, boards. The plugin makes it an autoload.
##
## Every method with an answer is awaited and returns a ScoregateAnswer: `answer.is_ok`, then `answer.document`, which
## has the members that the HTTP reference lists; otherwise `answer.reason` and `answer.detail`.
extends Node

const JSON_TYPE := "application/json"
const SIGNED_FOR_S := 300
const FIRST_WAIT_S := 0.5
const LONGEST_WAIT_S := 30.0
const LONGEST_POLL_S := 5.0
const MOST_RETRY_AFTER_S := 60

## The gateway's address, without "/v1".
var base_url := "http://localhost:8080"
## The player's token: keep it with the save game, and set it to go on as that player.
var token := ""
## Of one request.
var attempts := 6
## Runs that are sent later, and not lost.
var queue: ScoregateQueue
## Sends the requests.
var transport: Node

var _clock_offset_s := 0


func _ready() -> void:
	transport = ScoregateTransport.new()
	add_child(transport)
	queue = ScoregateQueue.new(self)


## Create an anonymous player, as whom this client acts from now on. Keep `document.token`.
func create_player(display_name: String) -> ScoregateAnswer:
	var answer := await _post("/v1/players", {"name": display_name}, "token", false)
	if answer.is_ok:
		token = answer.document["token"]
	return answer


## Open a run: `document` has `ticket`, `key`, `seed` (a string: see ScoregateClaims.seed_of) and `checkpoint_ticks`.
func open_run(board: String, build: String) -> ScoregateAnswer:
	return await _post("/v1/boards/%s/runs" % board.uri_encode(), {"build": build}, "ticket", false)


## Submit a run. It is durable when the answer is ok: `document.submission` is its id. `run` is the document of
## `open_run`, `stats` are ints by name, `recording` comes from a ScoregateRecorder.
func submit(
	run: Dictionary,
	score: int,
	ticks: int,
	stats: Dictionary,
	recording := PackedByteArray(),
	is_commit := false
) -> ScoregateAnswer:
	var body := ScoregateClaims.body(score, ticks, stats, recording, is_commit)
	return await send_claim(run["board"], run["ticket"], run["key"], body)


## Send the body of a claim, signed anew for each attempt. The queue uses it.
func send_claim(
	board: String, ticket: String, key: String, body: PackedByteArray
) -> ScoregateAnswer:
	var path := "/v1/boards/%s/scores" % board.uri_encode()
	var sign := func() -> Dictionary: return _signed(path, ticket, key, body)
	var answer := await _send("POST", path, sign, body, "submission", true)
	if answer.reason != "signature-expired" or answer.server_time == 0:
		return answer
	_clock_offset_s = answer.server_time - transport.now_s()
	return await _send("POST", path, sign, body, "submission", true)


## Read the state of a submission of this player.
func submission(id: String) -> ScoregateAnswer:
	return await _get("/v1/submissions/%s" % id.uri_encode(), {}, "submission")


## Read a submission until it is neither received nor pending. After `timeout_s` the answer is not ok.
func wait_until_settled(id: String, timeout_s := 60.0) -> ScoregateAnswer:
	var pause_s := FIRST_WAIT_S
	var until_ms := Time.get_ticks_msec() + int(timeout_s * 1000)
	while true:
		var answer := await submission(id)
		if not answer.is_ok or not answer.document.get("state") in ["received", "pending"]:
			return answer
		if Time.get_ticks_msec() + int(pause_s * 1000) > until_ms:
			answer.is_ok = false
			answer.status = 0
			answer.detail = "it is not settled yet"
			return answer
		await transport.wait(pause_s)
		pause_s = minf(pause_s * 1.5, LONGEST_POLL_S)
	return null


## The recordings that this player is asked to send: `document.reveals`.
func reveals() -> ScoregateAnswer:
	return await _get("/v1/reveals", {}, "reveals")


## Send a recording that is asked for.
func reveal(id: String, recording: PackedByteArray) -> ScoregateAnswer:
	var path := "/v1/submissions/%s/recording" % id.uri_encode()
	return await _send("PUT", path, _with_token("application/octet-stream"), recording, "", true)


## Answer a moderator's question, once.
func answer_question(id: String, text: String) -> ScoregateAnswer:
	return await _post("/v1/submissions/%s/answer" % id.uri_encode(), {"text": text}, "", true)


## Appeal against a decision, once.
func appeal(id: String, text: String) -> ScoregateAnswer:
	return await _post("/v1/submissions/%s/appeal" % id.uri_encode(), {"text": text}, "", true)


## List the boards; pass `document.next` as `cursor` for the next page.
func boards(query := {}) -> ScoregateAnswer:
	return await _get("/v1/boards", query, "boards")


## Describe a board.
func board(id: String) -> ScoregateAnswer:
	return await _get("/v1/boards/%s" % id.uri_encode(), {}, "board")


## Read a page of a board. `query` may have window, offset, limit, cursor, ranks, friends, players and segment.
func entries(id: String, query := {}) -> ScoregateAnswer:
	return await _get("/v1/boards/%s/entries" % id.uri_encode(), query, "entries")


## Read the entry of a player; the reason is "not-found" if there is none.
func entry(id: String, player: String, query := {}) -> ScoregateAnswer:
	var path := "/v1/boards/%s/entries/%s" % [id.uri_encode(), player.uri_encode()]
	return await _get(path, query, "player")


## Read a player's entry and its neighbours.
func around(id: String, player: String, radius := 5, query := {}) -> ScoregateAnswer:
	var path := "/v1/boards/%s/entries/%s/around" % [id.uri_encode(), player.uri_encode()]
	return await _get(path, query.merged({"radius": radius}), "entries")


## List the players that this one follows: `document.friends`.
func friends() -> ScoregateAnswer:
	return await _get("/v1/friends", {}, "friends")


## Follow a player.
func follow(player: String) -> ScoregateAnswer:
	var path := "/v1/friends/%s" % player.uri_encode()
	return await _send("PUT", path, _with_token(), PackedByteArray(), "", true)


## Unfollow a player.
func unfollow(player: String) -> ScoregateAnswer:
	var path := "/v1/friends/%s" % player.uri_encode()
	return await _send("DELETE", path, _with_token(), PackedByteArray(), "", true)


## Declare which group this player is in; null for none.
func set_membership(id: String, segment: String, group: Variant) -> ScoregateAnswer:
	var path := "/v1/boards/%s/memberships/%s" % [id.uri_encode(), segment.uri_encode()]
	var body := JSON.stringify({"value": group}).to_utf8_buffer()
	return await _send("PUT", path, _with_token(JSON_TYPE), body, "segments", true)


## List the families of boards.
func families(query := {}) -> ScoregateAnswer:
	return await _get("/v1/families", query, "families")


## List the boards of a family. `query` may have order, limit, cursor and metadata.<field>.
func family_boards(family: String, query := {}) -> ScoregateAnswer:
	return await _get("/v1/families/%s/boards" % family.uri_encode(), query, "boards")


## List the boards of a family on which a player stands.
func standings(family: String, player: String, query := {}) -> ScoregateAnswer:
	var path := "/v1/families/%s/players/%s/standings" % [family.uri_encode(), player.uri_encode()]
	return await _get(path, query, "standings")


## Read the entries of a player on up to 100 boards.
func entries_on(player: String, names: PackedStringArray, window := "alltime") -> ScoregateAnswer:
	var query := {"boards": ",".join(names), "window": window}
	return await _get("/v1/players/%s/entries" % player.uri_encode(), query, "entries")


## Download the asset of a board; `content` has it, compared with its digest.
func asset(id: String, digest: String) -> ScoregateAnswer:
	var wanted := digest.trim_prefix("sha256:")
	var path := "/v1/boards/%s/assets/%s" % [id.uri_encode(), wanted.uri_encode()]
	var answer := await _send("GET", path, _with_token(), PackedByteArray(), "", true)
	if answer.is_ok and ScoregateSigning.sha256(answer.content).hex_encode() != wanted:
		answer.is_ok = false
		answer.detail = "the file did not arrive whole"
	return answer


## Follow a board: connect to the feed's `event` signal, and free the feed to end it.
func watch(id: String, window := "alltime") -> ScoregateFeed:
	var path := "/v1/boards/%s/live?window=%s" % [id.uri_encode(), window.uri_encode()]
	var feed := ScoregateFeed.new(base_url.trim_suffix("/") + path)
	add_child(feed)
	return feed


func _get(path: String, query: Dictionary, member: String) -> ScoregateAnswer:
	var parts := PackedStringArray()
	for key: String in query:
		parts.append("%s=%s" % [key, str(query[key]).uri_encode()])
	var target := path if parts.is_empty() else path + "?" + "&".join(parts)
	return await _send("GET", target, _with_token(), PackedByteArray(), member, true)


func _post(
	path: String, document: Dictionary, member: String, is_repeatable: bool
) -> ScoregateAnswer:
	var body := JSON.stringify(document).to_utf8_buffer()
	return await _send("POST", path, _with_token(JSON_TYPE), body, member, is_repeatable)


func _with_token(content_type := "") -> Callable:
	var fields := {}
	if token:
		fields["Authorization"] = "Bearer " + token
	if content_type:
		fields["Content-Type"] = content_type
	return func() -> Dictionary: return fields


func _signed(path: String, ticket: String, key: String, body: PackedByteArray) -> Dictionary:
	var created: int = transport.now_s() + _clock_offset_s
	var request := {
		"method": "POST",
		"authority": authority(),
		"path": base_path() + path,
		"query": "",
		"content_type": JSON_TYPE,
		"created": created,
		"expires": created + SIGNED_FOR_S,
		"nonce": transport.nonce(),
		"keyid": ticket,
		"tag": "scoregate-run",
		"alg": "hmac-sha256",
	}
	return ScoregateSigning.sign(request, body, Marshalls.base64_to_raw(key))


## Host and port as they are signed.
func authority() -> String:
	var host := base_url.get_slice("://", 1).get_slice("/", 0).to_lower()
	if base_url.begins_with("https://"):
		return host.trim_suffix(":443")
	return host.trim_suffix(":80")


## What the address has before "/v1".
func base_path() -> String:
	var rest := base_url.get_slice("://", 1)
	var slash := rest.find("/")
	return "" if slash < 0 else rest.substr(slash).trim_suffix("/")


func _send(
	method: String,
	path: String,
	headers: Callable,
	body: PackedByteArray,
	member: String,
	is_repeatable: bool
) -> ScoregateAnswer:
	var url := base_url.trim_suffix("/") + path
	var pause_s := FIRST_WAIT_S
	for attempt in range(attempts):
		var told: Dictionary = await transport.send(method, url, headers.call(), body)
		var answer := ScoregateAnswer.new()
		answer.was_sent = told["was_sent"]
		answer.read(told["status"], told["fields"], told["body"], member)
		var is_safe := is_repeatable or not answer.was_sent or answer.status in [429, 503]
		if not answer.is_busy() or not is_safe or attempt == attempts - 1:
			return answer
		if answer.retry_after_s > MOST_RETRY_AFTER_S:
			return answer
		if answer.retry_after_s >= 0:
			await transport.wait(answer.retry_after_s)
		else:
			await transport.wait(pause_s * randf_range(0.5, 1.0))
			pause_s = minf(pause_s * 2, LONGEST_WAIT_S)
	return null
