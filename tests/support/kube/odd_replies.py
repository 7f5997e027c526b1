"""Replies that no API server sends, but proxies, load balancers and faults between do: raw bytes."""

from hypothesis import strategies as st

HTML = b"<html><body><h1>It works!</h1>\n<p>Please log in.</p>\n</body></html>\n"


def answer(body: bytes, *, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    """A complete HTTP reply."""
    head = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n"
    return head % (status, len(body), more) + body


def watched(*lines: bytes) -> bytes:
    """The reply to a watch."""
    return answer(b"".join(line + b"\n" for line in lines))


BODIES = (
    b"",
    b"null",
    b"[]",
    b"0",
    b'""',
    b"{}",
    b"{",
    b"\xff\xfe",
    HTML,
    b"[" * 100_000,
    b'{"kind":"Status","details":' + b"[" * 100_000,
    b'{"metadata":null,"spec":null,"items":null}',
    b'{"metadata":{},"spec":{},"items":[]}',
    b'{"metadata":{"resourceVersion":7},"spec":[],"items":{}}',
    b'{"metadata":{"resourceVersion":"1"},"spec":{"leaseTransitions":"x","leaseDurationSeconds":1e999}}',
    b'{"metadata":{"resourceVersion":"1","annotations":[1]},"spec":{"holderIdentity":7}}',
    b'{"metadata":{"resourceVersion":"1"},"items":[null,7,{"metadata":{"name":"a b","uid":""}}]}',
    b'{"kind":"Status","status":"Success","metadata":{}}',
)
NAMELESS = (
    b'{"type":"ADDED","object":null}',
    b'{"type":"ADDED","object":[]}',
    b'{"type":"DELETED","object":7}',
    b'{"type":"MODIFIED","object":{"metadata":{"name":"pod"}}}',
    b'{"type":"INVENTED","object":{}}',
)
"""Lines of a watch that do not show what has changed."""
LINES = (
    b'{"type":"ERROR","object":null}',
    b'{"type":"ERROR","object":"went wrong"}',
    b'{"type":"ERROR","object":{"code":"500","message":["x"]}}',
    b'{"type":"ERROR","object":{"code":-3}}',
    b'{"type":"ERROR","object":{"kind":"Status","code":500}}',
    b'{"type":"ERROR"}',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":{}}}}',
    b'{"type":"BOOKMARK","object":null}',
    b'{"type":null,"object":{}}',
    b'{"type":"ADDED","object":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    *BODIES,
)
HEADS = (
    b"",
    b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/9.9 2000 ?\r\n\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n{}",
)
STATUSES = (b"200 OK", b"204 No", b"302 Found", b"307 Go", b"401 No", b"429 Slow", b"500 No", b"503 Away")
RETRIES = (b"", b"Retry-After: " + b"9" * 400 + b"\r\n", b"Retry-After: \xb2\r\n", b"Retry-After: soon\r\n")


def answers() -> st.SearchStrategy[bytes]:
    """Odd replies to any request."""
    bodies = st.sampled_from(BODIES) | st.binary(max_size=60)
    lines = st.lists(st.sampled_from((*NAMELESS, *LINES)) | st.binary(max_size=30), max_size=4)
    framed = st.builds(
        lambda body, status, more: answer(body, status=status, more=more),
        bodies | lines.map(b"\n".join),
        st.sampled_from(STATUSES),
        st.sampled_from(RETRIES),
    )
    return st.sampled_from(HEADS) | framed


EVERY = (*HEADS, *map(answer, BODIES), *map(watched, (*NAMELESS, *LINES)))
"""All fixed examples, for tests without Hypothesis."""
