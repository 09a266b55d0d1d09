"""The router of the chart: its Lua on bodies whole and cut off, its configuration in a real HAProxy in front of real servers."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.deploy.backends import Backend, NameServer, serving
from tests.deploy.tools import CHART, find, render, tool
from tests.live_server import free_port

PODS = 4


def router_files(*sets: str) -> dict[str, str]:
    return find(render(CHART / "ci" / "keda-zero.yaml", *sets), "ConfigMap")["data"]


@pytest.fixture
def backends() -> Iterator[list[Backend]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serving(Backend(f"pod {i}"))) for i in range(PODS)]


class Router:
    """A HAProxy with the chart's configuration; addresses and files are this machine's, all else is as rendered.

    `hash-key` came with HAProxy 3.0 and is left out: it makes several routers agree.
    """

    def __init__(
        self, folder: Path, backends: list[Backend], *sets: str, names: NameServer | None = None, pod_port: int = 8000
    ) -> None:
        """With `names`, the pods are found as in a cluster; without, they are `backends`."""
        files = router_files(*sets)
        self.port, self.status_port = free_port(), free_port()
        (folder / "affinity.lua").write_text(files["affinity.lua"])
        servers = "\n".join(f"    server pod{i} 127.0.0.1:{b.server_port}" for i, b in enumerate(backends))
        config = files["haproxy.cfg"].replace(" hash-key addr-port", "")
        if names is None:
            config, templates = re.subn(r"    server-template pod .*", servers, config)
            assert templates == 1
        else:
            config = config.replace("parse-resolv-conf", f"nameserver cluster 127.0.0.1:{names.server_address[1]}")
            config = config.replace("cluster.local:8000", f"cluster.local:{pod_port}").replace(
                "hold valid 5s", "hold valid 1s"
            )
            config = config.replace("check inter 5s", "check inter 200ms").replace(
                "hold obsolete 5s", "hold obsolete 0s"
            )
        config = config.replace("/etc/haproxy/", f"{folder}/")
        config = config.replace(":8080", f"127.0.0.1:{self.port}").replace(":8404", f"127.0.0.1:{self.status_port}")
        (folder / "haproxy.cfg").write_text(config)
        self.process = subprocess.Popen(
            [tool("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")], stdout=subprocess.DEVNULL
        )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=10)

    def __enter__(self) -> Router:
        for _ in range(200):
            try:
                httpx.get(f"http://127.0.0.1:{self.status_port}/alive").raise_for_status()
                return self
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError("HAProxy did not start")

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(10)

    def pod(self, **body: object) -> str:
        """Who answered."""
        answer = self.client.post("/v1/chat/completions", json=body)
        answer.raise_for_status()
        return answer.json()["choices"][0]["message"]["content"]

    def metrics(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.status_port}/metrics").text


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


SCHEMAS = [
    {"type": "object", "properties": {f"field{i}": {"type": "string", "pattern": '^[}"{]+$'}}} for i in range(40)
]


def test_equal_constraints_meet_and_different_ones_spread(tmp_path, backends):
    with Router(tmp_path, backends, "router.affinity=constraint") as router:
        home = {i: router.pod(model="m", messages=chat("a"), guided_json=s) for i, s in enumerate(SCHEMAS)}
        for i, schema in enumerate(SCHEMAS):
            assert (
                router.pod(model="m", messages=chat(f"another prompt {i}"), guided_json=schema, stream=False) == home[i]
            )
        assert len(set(home.values())) == PODS


def test_equal_prompt_starts_meet(tmp_path, backends):
    start = "You are a patient clerk. " * 60
    with Router(tmp_path, backends, "router.affinity=prefix") as router:
        assert len({router.pod(messages=chat(f"{start}{i}"), guided_regex=f"a{i}") for i in range(20)}) == 1
        assert len({router.pod(messages=chat(f"{i} {start}")) for i in range(40)}) > 1


def test_plain_requests_spread(tmp_path, backends):
    with Router(tmp_path, backends, "router.affinity=constraint") as router:
        assert len({router.pod(messages=chat("the same")) for _ in range(60)}) == PODS


def test_a_pod_that_is_gone_moves_only_its_own_constraints(tmp_path, backends):
    with Router(tmp_path, backends, "router.affinity=constraint") as router:
        before = [router.pod(guided_json=s) for s in SCHEMAS]
    with Router(tmp_path, backends[:-1], "router.affinity=constraint") as router:
        after = [router.pod(guided_json=s) for s in SCHEMAS]
    moved = [b for b, a in zip(before, after, strict=True) if b != a]
    assert moved
    assert set(moved) == {f"pod {PODS - 1}"}


def test_a_body_larger_than_the_buffer_gets_through_whole(tmp_path, backends):
    with Router(tmp_path, backends[:1], "router.bufferBytes=16384") as router:
        router.pod(messages=chat("x" * 200_000), guided_regex="a+")
    assert len(backends[0].asked[0]["messages"][0]["content"]) == 200_000


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"guided_json": {"a', b'{"a":"\\', b"\xff\xfe", b'{"a" 1}', b"null"]
)
def test_a_body_that_is_no_request_is_for_the_server_to_refuse(tmp_path, backends, body):
    with Router(tmp_path, backends[:1]) as router:
        with suppress(httpx.RemoteProtocolError):  # the stand-in parses its body and hangs up on what is no JSON
            router.client.post("/v1/chat/completions", content=body)
        assert router.pod(messages=chat("still there")) == "pod 0"


def test_without_a_pod_the_client_is_told_to_come_back_and_is_counted(tmp_path):
    with Router(tmp_path, []) as router:
        answer = router.client.post("/v1/chat/completions", json={"messages": chat("hello")})
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "60"
        assert answer.json()["error"]["code"] == "not_ready"
        counted = re.search(r'^haproxy_frontend_http_requests_total\{proxy="openai"\} (\d+)$', router.metrics(), re.M)
        assert counted
        assert int(counted[1]) == 1


def test_pods_come_and_go_by_their_names(tmp_path):
    """As in a cluster: a headless service whose addresses change, asked for by HAProxy itself."""
    port = free_port()
    with ExitStack() as stack:
        names = stack.enter_context(serving(NameServer()))
        router = stack.enter_context(Router(tmp_path, [], "router.affinity=none", names=names, pod_port=port))

        def answers() -> set[str]:
            made = (router.client.post("/v1/chat/completions", json={}) for _ in range(12))
            return {
                a.json()["choices"][0]["message"]["content"] if a.status_code == 200 else str(a.status_code)
                for a in made
            }

        def become(wanted: set[str]) -> None:
            for _ in range(150):
                if (seen := answers()) == wanted:
                    return
                time.sleep(0.1)
            raise AssertionError(f"{seen} is not {wanted}")

        become({"503"})
        stack.enter_context(serving(Backend("one", ("127.0.0.2", port))))
        names.addresses = ["127.0.0.2"]
        become({"one"})
        stack.enter_context(serving(Backend("two", ("127.0.0.3", port))))
        names.addresses = ["127.0.0.2", "127.0.0.3"]
        become({"one", "two"})
        names.addresses = ["127.0.0.3"]
        become({"two"})
        assert names.names == {"test-guided-server-pods.ai.svc.cluster.local"}


def test_what_a_pod_has_read_is_not_sent_again(tmp_path):
    """It may be generating: twice the tokens, and with a storm of deaths twice the storm."""
    with ExitStack() as stack:
        dying = [stack.enter_context(serving(Backend(f"pod {i}", hangs_up=True))) for i in range(2)]
        router = stack.enter_context(Router(tmp_path, dying, "router.affinity=none"))
        for _ in range(4):
            with suppress(
                httpx.RemoteProtocolError
            ):  # a connection that has been used before is closed without an answer
                assert router.client.post("/v1/chat/completions", json={"messages": chat("once")}).status_code == 502
        assert sum(len(pod.asked) for pod in dying) == 4


def test_a_pod_that_does_not_accept_is_passed_over(tmp_path, backends):
    gone = Backend("gone")
    gone.server_close()
    with Router(tmp_path, [gone, backends[0]], "router.affinity=none") as router:
        assert {router.pod(messages=chat("x")) for _ in range(8)} == {"pod 0"}


def test_probes_get_in_while_all_connections_are_taken(tmp_path, backends):
    with Router(tmp_path, backends, "router.maxConnections=40") as router, ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", router.port), timeout=10))
        for _ in range(3):
            assert httpx.get(f"http://127.0.0.1:{router.status_port}/alive", timeout=10).status_code == 200
        assert re.search(r'^haproxy_frontend_current_sessions\{proxy="openai"\} 40$', router.metrics(), re.M)


@pytest.mark.parametrize("affinity", ["constraint", "prefix", "both", "none"])
def test_every_affinity_is_a_valid_configuration(tmp_path, backends, affinity):
    with Router(tmp_path, backends, f"router.affinity={affinity}") as router:
        assert router.pod(messages=chat("x"), guided_choice=["a"]).startswith("pod")


def test_the_key_ignores_everything_that_is_no_constraint(tmp_path, backends):
    schema = json.dumps(SCHEMAS[0])
    bodies = [
        f'{{"guided_json": {schema}, "model": "m"}}',
        f'{{"model": "x, y", "stop": ["]", "}}"], "guided_json": {schema}}}',
        f'{{"metadata": {{"guided_json": 7}}, "temperature": 0.5 , "guided_json": {schema}  }}',
        f'{{"a": "\\"guided_json\\": 1", "guided_regex": null, "guided_json": {schema}}}',
    ]
    with Router(tmp_path, backends, "router.affinity=constraint") as router:
        answers = [router.client.post("/v1/completions", content=body).json() for body in bodies]
        assert len({a["choices"][0]["message"]["content"] for a in answers}) == 1
        homes = {router.pod(guided_json=s) for s in SCHEMAS}
        assert len(homes) == PODS
