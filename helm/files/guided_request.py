"""In: BASE_URL, MODEL, CHOICES (JSON) and API_KEY from the environment; out: exit status 0 if a constrained answer obeys.

Standard library only: `helm test` runs it, in any image with Python, and the test-suite against a real server. A 503 or 429 is asked again
when its Retry-After is over, as often as that: at zero pods the first request is what calls for one. The pod's deadline ends it.
"""

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any

choices = json.loads(os.environ["CHOICES"])
body = {
    "model": os.environ["MODEL"],
    "messages": [{"role": "user", "content": "Sentiment of: The migration failed and every customer was logged out."}],
    "guided_choice": choices,
    "max_tokens": 64,
}
headers = {"Content-Type": "application/json"}
if os.environ.get("API_KEY"):
    headers["Authorization"] = f"Bearer {os.environ['API_KEY']}"
request = urllib.request.Request(
    f"{os.environ['BASE_URL']}/v1/chat/completions", data=json.dumps(body).encode(), headers=headers
)


def answered() -> Any:
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            wait = error.headers.get("Retry-After", "")
            if error.code not in (429, 503) or not wait.isdigit():
                raise
            print(f"{error.code}: again in {wait} s", flush=True)
            time.sleep(int(wait))


answer = answered()["choices"][0]["message"]["content"]
print(f"answer: {answer!r}")
if answer not in choices:
    raise SystemExit(f"the answer is none of {choices}: the constraint was not applied")
