"""In: an OpenAI endpoint; out: locust's web page, with the time to the first token as a row of its own.

    pip install locust
    locust -f loadtests/locustfile.py --host http://127.0.0.1:8000            # then http://127.0.0.1:8089
    locust -f loadtests/locustfile.py --host ... --headless -u 16 -r 4 -t 1m  # without the page

API_KEY and MODEL come from the environment; without MODEL the first one of the server is asked.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from locust import HttpUser, between, events, task

PROMPT = "Sentiment of: The migration failed and every customer was logged out."
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
}


class Caller(HttpUser):
    """Somebody who asks, reads the stream and thinks for a moment."""

    wait_time = between(0.1, 1.0)

    def on_start(self) -> None:
        if os.environ.get("API_KEY"):
            self.client.headers["Authorization"] = f"Bearer {os.environ['API_KEY']}"
        self.model = os.environ.get("MODEL") or self.client.get("/v1/models").json()["data"][0]["id"]

    @task(3)
    def plain(self) -> None:
        self.stream("plain", max_tokens=32)

    @task(2)
    def choice(self) -> None:
        self.stream("choice", structured_outputs={"choice": ["POSITIVE", "NEUTRAL", "NEGATIVE"]})

    @task(2)
    def schema(self) -> None:
        self.stream("json", structured_outputs={"json": WEATHER}, max_tokens=100)

    def stream(self, name: str, **fields: Any) -> None:
        """locust times the response's head; the first token and the whole stream are events of our own."""
        body = {"model": self.model, "messages": [{"role": "user", "content": PROMPT}], "stream": True, **fields}
        begin, first, length = time.perf_counter(), None, 0
        with self.client.post(
            "/v1/chat/completions", json=body, stream=True, name=name, catch_response=True
        ) as response:
            if response.status_code != 200:
                response.failure(response.text[:200])
                return
            for line in response.iter_lines():
                length += len(line)
                if line.startswith(b"data: {"):
                    data = json.loads(line[6:])
                    if "error" in data:
                        response.failure(str(data["error"])[:200])
                        return
                    if first is None and data["choices"] and data["choices"][0]["delta"].get("content"):
                        first = time.perf_counter() - begin
        for kind, seconds in (("first token", first), ("whole stream", time.perf_counter() - begin)):
            if seconds is not None:
                events.request.fire(
                    request_type=kind,
                    name=name,
                    response_time=1000 * seconds,
                    response_length=length,
                    exception=None,
                    context={},
                )
