"""A client of a service over HTTP, and a port for it."""

import json
import socket
import urllib.error
import urllib.request


class Service:
    """A service, as a client sees it."""

    def __init__(self, address, token=None):
        self.address, self.token = address, token

    def send(self, path, body, token=None, method="POST"):
        """Send a request; return the status and the body of the answer."""
        headers = {"Content-Type": "application/json"}
        if token or self.token:
            headers["Authorization"] = f"Bearer {token or self.token}"
        request = urllib.request.Request(f"{self.address}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def ask(self, path, question, **options):
        status, answer = self.send(path, json.dumps(question).encode(), **options)
        return status, json.loads(answer) if answer[:1] in (b"{", b"[") else answer


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
