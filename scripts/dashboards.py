"""In: the panels below; out: deploy/monitoring/dashboards/*.json, as Grafana imports them.

    python scripts/dashboards.py [--check]

A panel is a title, a unit and one PromQL expression per line of its graph; the rest of Grafana's JSON is the same for all. With
--check nothing is written; exit status 1 says that a file is out of date.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "monitoring" / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PODS = 'namespace=~"$namespace"'
MODEL = f'{PODS},model_name=~"$model"'
API = f'{PODS},handler=~"/v1/.*"'
WIDTH, HEIGHT = 8, 8  # three panels in a row of Grafana's 24 columns


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph. `lines` maps a legend (Grafana's {{label}} form) to its expression."""

    title: str
    unit: str
    lines: dict[str, str]
    description: str = ""


def quantiles(metric: str, *, by: str = MODEL) -> dict[str, str]:
    """p50, p95 and p99 of a histogram."""
    rate = f"sum by (le) (rate({metric}_bucket{{{by}}}[$__rate_interval]))"
    return {f"p{q}": f"histogram_quantile(0.{q}, {rate})" for q in (50, 95, 99)}


def per_second(metric: str, labels: str = MODEL, by: str = "") -> str:
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({metric}{{{labels}}}[$__rate_interval]))"


def share(metric: str, of: str, those: str) -> str:
    return f"{per_second(metric, those)} / {per_second(metric, of)}"


SERVICE = [
    Panel("Requests", "reqps", {"{{handler}}": per_second("http_requests_total", API, "handler")}),
    Panel(
        "Answers by status",
        "reqps",
        {"{{status}}": per_second("http_requests_total", API, "status")},
        "4xx are refusals: constraints that cannot be enforced, bad requests, wrong keys.",
    ),
    Panel(
        "Share of errors",
        "percentunit",
        {
            "server errors": share("http_requests_total", API, f'{API},status="5xx"'),
            "refusals": share("http_requests_total", API, f'{API},status="4xx"'),
        },
    ),
    Panel("Time to first token", "s", quantiles("vllm:time_to_first_token_seconds")),
    Panel("Time between tokens", "s", quantiles("vllm:inter_token_latency_seconds")),
    Panel("Whole request", "s", quantiles("vllm:e2e_request_latency_seconds")),
    Panel(
        "Tokens",
        "short",
        {
            "prompt tokens/s": per_second("vllm:prompt_tokens_total"),
            "generated tokens/s": per_second("vllm:generation_tokens_total"),
        },
    ),
    Panel(
        "Why answers end",
        "reqps",
        {"{{finished_reason}}": per_second("vllm:request_success_total", by="finished_reason")},
    ),
    Panel(
        "Router",
        "reqps",
        {
            "requests": per_second("haproxy_frontend_http_requests_total", f'{PODS},proxy="openai"'),
            "without a pod": per_second("haproxy_frontend_http_responses_total", f'{PODS},proxy="openai",code="5xx"'),
        },
        "Only with router.enabled.",
    ),
]

ENGINE = [
    Panel(
        "Requests in the engine",
        "short",
        {
            "running": f"sum (vllm:num_requests_running{{{MODEL}}})",
            "waiting": f"sum (vllm:num_requests_waiting{{{MODEL}}})",
        },
    ),
    Panel("KV cache in use", "percentunit", {"{{pod}}": f"max by (pod) (vllm:kv_cache_usage_perc{{{MODEL}}})"}),
    Panel("Preemptions", "ops", {"{{pod}}": per_second("vllm:num_preemptions_total", by="pod")}),
    Panel("Time in the queue", "s", quantiles("vllm:request_queue_time_seconds")),
    Panel("Prefill", "s", quantiles("vllm:request_prefill_time_seconds")),
    Panel("Decode", "s", quantiles("vllm:request_decode_time_seconds")),
    Panel(
        "Prefix cache",
        "percentunit",
        {"hit rate": f"{per_second('vllm:prefix_cache_hits_total')} / {per_second('vllm:prefix_cache_queries_total')}"},
        "Share of prompt tokens that need no prefill.",
    ),
    Panel("Tokens per engine step", "short", quantiles("vllm:iteration_tokens_total")),
    Panel("Engines", "short", {"{{model_name}}": f"count by (model_name) (vllm:kv_cache_usage_perc{{{MODEL}}})"}),
    Panel("Generated tokens per request", "short", quantiles("vllm:request_generation_tokens")),
    Panel("Prompt tokens per request", "short", quantiles("vllm:request_prompt_tokens")),
    Panel("max_tokens asked for", "short", quantiles("vllm:request_params_max_tokens")),
]

COMPILED = per_second("guided_compilations_total", PODS)
FOUND = per_second("guided_cache_hits_total", PODS)
CONSTRAINTS = [
    Panel(
        "Where indexes come from",
        "ops",
        {"{{tier}}": per_second("guided_cache_hits_total", PODS, "tier"), "compiled": COMPILED},
        "Each constraint that is asked for: found in memory, on disk, in Redis, or compiled.",
    ),
    Panel("Found, not compiled", "percentunit", {"hit rate": f"{FOUND} / ({FOUND} + {COMPILED})"}),
    Panel("Wall time of a compilation", "s", quantiles("guided_compilation_seconds", by=PODS)),
    Panel("Refused by a worker", "ops", {"{{code}}": per_second("guided_refusals_total", PODS, "code")}),
    Panel(
        "Workers",
        "short",
        {
            "waiting": f"sum (guided_compile_queue{{{PODS}}})",
            "busy": f"sum (guided_compile_busy{{{PODS}}})",
        },
    ),
    Panel(
        "Trouble",
        "ops",
        {
            "workers that died": per_second("guided_compile_deaths_total", PODS),
            "turned away, too many wait": per_second("guided_compile_overloads_total", PODS),
        },
    ),
    Panel("Bytes of indexes", "bytes", {"{{tier}}": f"sum by (tier) (guided_cache_bytes{{{PODS}}})"}),
    Panel("Dropped to make room", "ops", {"{{tier}}": per_second("guided_cache_evictions_total", PODS, "tier")}),
    Panel("Constraints in memory", "short", {"{{pod}}": f"sum by (pod) (guided_cache_entries{{{PODS}}})"}),
    Panel(
        "Wait for a constraint",
        "s",
        quantiles("guided_constraint_wait_seconds", by=PODS),
        "From a constraint to its index, found or compiled.",
    ),
    Panel("States of an index", "short", quantiles("guided_index_states", by=PODS), "When it is compiled."),
    Panel("Bytes of an index", "bytes", quantiles("guided_index_bytes", by=PODS), "When it is compiled."),
]

CONSTRAINED = f'{PODS},kind!="none"'
ANSWERS = [
    Panel(
        "Constrained requests by kind", "reqps", {"{{kind}}": per_second("guided_requests_total", CONSTRAINED, "kind")}
    ),
    Panel(
        "How requests end",
        "reqps",
        {"{{outcome}}": per_second("guided_requests_total", PODS, "outcome")},
        "truncated: cut off by max_tokens; abandoned: the client left first.",
    ),
    Panel("Refused, by code", "reqps", {"{{code}}": per_second("guided_refused_requests_total", PODS, "code")}),
    Panel("Time to first token, constrained", "s", quantiles("guided_time_to_first_token_seconds", by=CONSTRAINED)),
    Panel("Time between tokens, constrained", "s", quantiles("guided_inter_token_seconds", by=CONSTRAINED)),
    Panel("Whole request, constrained", "s", quantiles("guided_request_seconds", by=CONSTRAINED)),
    Panel(
        "Answers at the end of their tokens",
        "reqps",
        {
            "cut off": per_second("guided_truncated_answers_total", PODS),
            "complete, all tokens used": per_second("guided_budget_bound_answers_total", PODS),
        },
        "Complete answers that used all of their tokens were shaped by max_tokens: it may be too small.",
    ),
]

DASHBOARDS = {
    "constraints": ("Guided server: constraints", CONSTRAINTS),
    "answers": ("Guided server: constrained answers", ANSWERS),
    "service": ("Guided server: service", SERVICE),
    "engine": ("Guided server: engine", ENGINE),
}


def panel_json(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": WIDTH * (number % 3), "y": HEIGHT * (number // 3), "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
            for i, (legend, expression) in enumerate(panel.lines.items())
        ],
    }


def variable(name: str, metric: str, label: str) -> dict[str, Any]:
    """A choice at the top of the dashboard: the values that a label of a metric has."""
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": f"label_values({metric}, {label})",
        "definition": f"label_values({metric}, {label})",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def dashboard(name: str, title: str, panels: list[Panel]) -> str:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "current": {}}
    board = {
        "uid": f"guided-{name}",
        "title": title,
        "tags": ["guided-server"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                source,
                variable("namespace", "vllm:kv_cache_usage_perc", "namespace"),
                variable("model", "vllm:kv_cache_usage_perc", "model_name"),
            ]
        },
        "panels": [panel_json(i, panel) for i, panel in enumerate(panels)],
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    stale = 0
    for name, (title, panels) in DASHBOARDS.items():
        path, text = FOLDER / f"{name}.json", dashboard(name, title, panels)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        print(f"{'out of date' if '--check' in sys.argv[1:] else 'wrote'}: {path.name}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
