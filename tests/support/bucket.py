"""A bucket over real HTTP that speaks as much S3 as we use, and misbehaves on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Bucket:
    """Objects with their date, by key. `status` refuses everything; clearing `go_on` stalls it."""

    name = "evidence"

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.status = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.endpoint = ""

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-central-1",
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65_536
    bucket: Bucket

    def answer(self, status: int, body: bytes = b"", **headers: Any) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def entry(self) -> tuple[str, dict[str, str], bytes]:
        """The key, the query, and the body; nothing is answered while the bucket stalls."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.bucket.requests.append(f"{self.command} {self.path}")
        self.bucket.go_on.wait(30)
        return unquote(parts.path).removeprefix(f"/{self.bucket.name}").removeprefix("/"), query, body

    def is_refused(self) -> bool:
        if self.bucket.status:
            self.answer(self.bucket.status, b"<Error><Code>Told</Code><Message>told to</Message></Error>")
        return bool(self.bucket.status)

    def do_PUT(self) -> None:
        key, _, body = self.entry()
        if self.is_refused():
            return
        source = (
            unquote(self.headers.get("x-amz-copy-source", ""))
            .lstrip("/")
            .removeprefix(f"{self.bucket.name}/")
        )
        with self.bucket.lock:
            if source and source not in self.bucket.objects:
                self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                return
            if self.headers.get("If-None-Match") == "*" and key in self.bucket.objects:
                self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            content = self.bucket.objects[source][0] if source else body
            self.bucket.objects[key] = (content, datetime.now(UTC))
        copied = b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>" if source else b""
        self.answer(200, copied, ETag=f'"{md5(content).hexdigest()}"')

    def do_GET(self) -> None:
        key, query, _ = self.entry()
        if self.is_refused():
            return
        if not key:
            self.answer(200, self.listing(query), Content_Type="application/xml")
            return
        found = self.bucket.objects.get(key)
        if found is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        body, at = found
        facts = {"ETag": f'"{md5(body).hexdigest()}"', "Last_Modified": format_datetime(at, usegmt=True)}
        wanted = self.headers.get("Range")
        if wanted:
            first, last = (int(each) for each in wanted.removeprefix("bytes=").split("-"))
            part = body[first : last + 1]
            facts["Content_Range"] = f"bytes {first}-{first + len(part) - 1}/{len(body)}"
            self.answer(206, part, **facts)
        else:
            self.answer(200, body, **facts)

    def do_HEAD(self) -> None:
        key, _, _ = self.entry()
        found = self.bucket.objects.get(key)
        if found is None:
            self.answer(404)
            return
        dated = format_datetime(found[1], usegmt=True)
        self.answer(200, Content_Length=len(found[0]), ETag='"x"', Last_Modified=dated)

    def do_DELETE(self) -> None:
        key, _, _ = self.entry()
        if self.is_refused():
            return
        with self.bucket.lock:
            self.bucket.objects.pop(key, None)
        self.answer(204)

    def do_POST(self) -> None:
        _, _, body = self.entry()
        if self.is_refused():
            return
        keys = [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
        with self.bucket.lock:
            for key in keys:
                self.bucket.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), Content_Type="application/xml")

    def listing(self, query: dict[str, str]) -> bytes:
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        keys = sorted(
            key for key in self.bucket.objects if key.startswith(query.get("prefix", "")) and key > after
        )
        count = int(query.get("max-keys", 1000))
        shown = "".join(self.listed(key) for key in keys[:count])
        is_cut = len(keys) > count
        more = f"<NextContinuationToken>{escape(keys[count - 1])}</NextContinuationToken>" if is_cut else ""
        truncated = str(is_cut).lower()
        return (
            f"<ListBucketResult><Name>{self.bucket.name}</Name><IsTruncated>{truncated}</IsTruncated>"
            f"{more}{shown}</ListBucketResult>"
        ).encode()

    def listed(self, key: str) -> str:
        body, at = self.bucket.objects[key]
        when = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
            f"<ETag>x</ETag><Size>{len(body)}</Size></Contents>"
        )

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running_bucket() -> Iterator[Bucket]:
    bucket = Bucket()
    handler = type("BucketHandler", (Handler,), {"bucket": bucket})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    bucket.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield bucket
    finally:
        bucket.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
