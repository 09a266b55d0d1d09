"""In: BASE_URL, MODEL, CHOICES (JSON) and API_KEY from the environment; out: exit status 0 if a constrained answer obeys.

Standard library only: `helm test` runs it inside the server's image, and the test-suite against a real server.
"""

import json
import os
import urllib.request

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
with urllib.request.urlopen(request, timeout=120) as response:
    answer = json.load(response)["choices"][0]["message"]["content"]
print(f"answer: {answer!r}")
if answer not in choices:
    raise SystemExit(f"the answer is none of {choices}: the constraint was not applied")
