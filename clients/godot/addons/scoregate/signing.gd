## Signs requests in Scoregate's profile of RFC 9421 and RFC 9530. Pure: no clock, no chance, no network.
class_name ScoregateSigning
extends RefCounted

const COMPONENTS := '("@method" "@authority" "@path" "@query" "content-type" "content-digest")'


## The Content-Digest field of a body.
static func content_digest(body: PackedByteArray) -> String:
	return "sha-256=:%s:" % Marshalls.raw_to_base64(sha256(body))


static func sha256(data: PackedByteArray) -> PackedByteArray:
	var context := HashingContext.new()
	context.start(HashingContext.HASH_SHA256)
	if data.size() > 0:
		context.update(data)
	return context.finish()


## The value of `@signature-params`. `request` has `created` and `expires` (Unix seconds), `nonce`, `keyid`, `tag` and,
## unless it is empty, `alg`.
static func parameters(request: Dictionary) -> String:
	var alg := ""
	if request["alg"]:
		alg = ';alg="%s"' % request["alg"]
	return (
		'%s;created=%d;expires=%d;nonce="%s";keyid="%s"%s;tag="%s"'
		% [
			COMPONENTS,
			request["created"],
			request["expires"],
			request["nonce"],
			request["keyid"],
			alg,
			request["tag"]
		]
	)


## The text to sign (RFC 9421, section 2.5). `request` also has `method`, `authority`, `path`, `query` (without its
## question mark) and `content_type`.
static func signature_base(request: Dictionary, digest: String, params: String) -> String:
	return (
		(
			'"@method": %s\n"@authority": %s\n"@path": %s\n"@query": ?%s\n"content-type": %s\n'
			+ '"content-digest": %s\n"@signature-params": %s'
		)
		% [
			request["method"],
			request["authority"],
			request["path"],
			request["query"],
			request["content_type"],
			digest,
			params
		]
	)


## The header fields of a request that is signed with the key of a run.
static func sign(request: Dictionary, body: PackedByteArray, key: PackedByteArray) -> Dictionary:
	var digest := content_digest(body)
	var params := parameters(request)
	var context := HMACContext.new()
	context.start(HashingContext.HASH_SHA256, key)
	context.update(signature_base(request, digest, params).to_utf8_buffer())
	return {
		"Content-Type": request["content_type"],
		"Content-Digest": digest,
		"Signature-Input": "sg=" + params,
		"Signature": "sg=:%s:" % Marshalls.raw_to_base64(context.finish()),
	}
