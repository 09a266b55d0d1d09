"""What the chart takes out of secrets and settings, warm-up and the pod of `helm test` among them."""

from __future__ import annotations

import json

import pytest

from tests.deploy.tools import CHART, case, environment, find, refusal, render, server_containers


def test_secrets_come_from_secrets():
    variables = environment(server_containers(case("production"))[0])
    assert variables["VLLM_API_KEY"] == {"secretKeyRef": {"name": "guided-api-key", "key": "api-key"}}
    assert variables["HF_TOKEN"] == {"secretKeyRef": {"name": "guided-hugging-face", "key": "token"}}


def test_files_of_keys_and_keys_of_operators_come_from_the_secret():
    template = find(case("production"), "Deployment", "guided")["spec"]["template"]["spec"]
    (container,) = template["containers"]
    variables = environment(container)
    assert variables["GUIDED_ADMIN_KEYS"] == {"secretKeyRef": {"name": "guided-api-key", "key": "admin-key"}}
    assert variables["GUIDED_API_KEYS_FILE"] == "/keys/keys.yaml"
    assert {"name": "keys", "mountPath": "/keys", "readOnly": True} in container["volumeMounts"]
    (volume,) = [v["secret"] for v in template["volumes"] if v["name"] == "keys"]
    assert volume["secretName"] == "guided-api-key" and volume["items"] == [{"key": "keys.yaml", "path": "keys.yaml"}]
    assert "auth.existingSecret" in refusal('auth.keysFile="keys.yaml"')


def test_the_shared_cache_comes_from_a_secret_and_may_be_reached():
    variables = environment(server_containers(case("production"))[0])
    assert variables["GUIDED_REDIS_URL"] == {"secretKeyRef": {"name": "guided-redis", "key": "url"}}
    assert variables["GUIDED_REDIS_KEY"] == {"secretKeyRef": {"name": "guided-redis", "key": "signing-key"}}
    egress = find(case("production"), "NetworkPolicy", "guided-server")["spec"]["egress"]
    rule = next(r for r in egress if r["ports"][0]["port"] == 6379)
    assert rule["to"] == [{"ipBlock": {"cidr": "10.64.0.0/16"}}]


def test_every_rank_reaches_the_index_store():
    for container in server_containers(case("multi-node")):
        variables = environment(container)
        assert variables["GUIDED_REDIS_URL"]["secretKeyRef"]["name"] == "guided-redis"
        assert "GUIDED_REDIS_KEY" not in variables
        assert variables["GUIDED_WARM"] == "/warm"
        assert {"name": "warm-up", "mountPath": "/warm", "readOnly": True} in container["volumeMounts"]
    egress = find(case("multi-node"), "NetworkPolicy")["spec"]["egress"]
    assert {"ports": [{"port": 6379, "protocol": "TCP"}]} in egress


def test_a_changed_constraint_is_a_new_pod():
    def checksum(*sets):
        pod = find(render(CHART / "ci" / "production.yaml", *sets), "Deployment", "guided")["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/warm-up"]

    assert checksum() == checksum()
    assert checksum() != checksum("warmUp.constraints.more\\.regex=a")


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (('warmUp.constraints={"a.yaml": "x"}',), "no constraint by its name"),
        (('warmUp.constraints={"a.regex": 5}',), "has to be text"),
        (('warmUp.constraints={"a.regex": "x"}', 'warmUp.existingConfigMap="b"'), "not both"),
        (('settings={"redis_key": "k"}',), "redis_key"),
    ],
)
def test_warm_up_and_secrets_that_cannot_work_are_refused(sets, reason):
    assert reason in refusal(*sets)


def test_an_api_key_on_the_command_line_is_refused():
    assert "api-key" in refusal('engine.args={"api-key": "secret"}')


def test_a_setting_of_a_large_number_is_written_as_people_write_it():
    variables = environment(server_containers(case("production"))[0])
    assert variables["GUIDED_INDEX_BYTES"] == "268435456"
    assert variables["GUIDED_COMPILE_SECONDS"] == "5"


FILE_OF_KEYS = ("auth.existingSecret=s", "auth.key=", "auth.keysFile=keys.yaml")


def test_the_test_sends_a_key_that_exists():
    def key(*sets):
        (container,) = find(render(None, *sets), "Pod")["spec"]["containers"]
        return environment(container).get("API_KEY")

    assert key() is None
    assert key("auth.existingSecret=s") == {"secretKeyRef": {"name": "s", "key": "api-key"}}
    assert key("auth.existingSecret=s", "auth.key=", "auth.adminKey=a") is None
    assert key(*FILE_OF_KEYS, "test.keySecret.name=t") == {"secretKeyRef": {"name": "t", "key": "api-key"}}
    assert "test.keySecret" in refusal(*(f'{name}="{value}"' for name, value in (s.split("=") for s in FILE_OF_KEYS)))


def test_the_test_pod_asks_for_a_constraint():
    pod = find(case("production"), "Pod")
    container = pod["spec"]["containers"][0]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert '"guided_choice": choices' in container["args"][0]
    variables = environment(container)
    assert json.loads(variables["CHOICES"]) == ["POSITIVE", "NEUTRAL", "NEGATIVE"]
    assert variables["BASE_URL"] == "http://guided:80"
    assert variables["API_KEY"]["secretKeyRef"]["name"] == "guided-api-key"
