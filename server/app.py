"""In: vLLM's arguments, its engine client, a compile service, settings; out: the FastAPI application. Starts nothing."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from fastapi import FastAPI, Request
from opentelemetry import trace
from starlette.datastructures import State
from starlette.responses import Response
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.api_server.routers import register_api_routers
from vllm.entrypoints.launchers.launcher import terminate_if_errored
from vllm.entrypoints.launchers.utils.server_utils import lifespan
from vllm.entrypoints.serve.exception_handling.register import init_exception_handler
from vllm.entrypoints.serve.middleware.register import init_entrypoints_middleware
from vllm.entrypoints.serve.sagemaker.api_router import sagemaker_standards_bootstrap
from vllm.plugins.endpoint_plugins.interface import attach_endpoint_plugins
from vllm.tasks import SupportedTask
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.prometheus import get_prometheus_registry

from server.availability import Availability
from server.body_limits import BodyLimits
from server.compile_metrics import CompileMetrics
from server.compile_service import CompileService
from server.constraint_middleware import ConstraintMiddleware
from server.description import describe_constraints
from server.engine import GuidedEngine
from server.error_bodies import OpenAIErrors, install_handlers
from server.errors import RequestRefused
from server.gate import Gate
from server.keys import KeyRing
from server.load import Load, LoadReports
from server.mask_metrics import MaskMetrics
from server.observing_middleware import ObservingMiddleware
from server.parsers import put_in_front
from server.pressure_sample import PressureSample
from server.request_metrics import RequestMetrics
from server.responses import serve_responses
from server.routes import guided, models, probes
from server.routes.embeddings import add_refusals
from server.routes.playground import add_playground
from server.settings import Settings
from server.thinking.serving import think_first
from server.tools.conventions import convention_of
from server.tools.list_parser import use_where_none_is_set
from server.tools.parser import CallsParser
from server.tools.serving import serve_honestly
from server.tracing import Tracing
from server.vllm_backends import VllmBackends

_OURS = {"api_key": [""], "enable_request_id_headers": False}


async def create_app(
    args: Namespace,
    engine: GuidedEngine,
    compile_service: CompileService,
    *,
    settings: Settings | None = None,
    keys: KeyRing | None = None,
    load: Load | None = None,
    backends: VllmBackends | None = None,
) -> FastAPI:
    """vLLM's own OpenAI routes and serving objects, with our middleware in place of its authentication.

    Args:
        args: their `api_key` is not looked at: `keys` has it.
        keys: who may call; None: everybody.
        load: of the engine, for routers that ask; None: they get no answer.
        backends: vLLM's own; None: requests that name one are refused.
    """
    settings, keys = settings or Settings(), keys or KeyRing()
    tasks = await engine.get_supported_tasks()
    app = FastAPI(title="guided-server", lifespan=lifespan, **_documentation(args))
    app.state.args = args
    app.state.availability = Availability(engine)
    app.root_path = args.root_path or ""
    # The first one added is the innermost. All of ours are inside CORS and vLLM's count of requests, so that refusals count.
    _add_constraints(app, args, engine, compile_service, settings, backends, tasks)
    _add_limits(app, settings, keys, load)
    _add_routes(app, args, engine, tasks)
    # Keys and request ids are ours: an empty key is none to vLLM, and keeps it from looking for one in the environment.
    init_entrypoints_middleware(Namespace(**{**vars(args), **_OURS}), app, tasks)
    app.add_middleware(OpenAIErrors)  # the last ones are the outermost
    await _add_observation(app, engine, compile_service, settings.measured_every)
    app = sagemaker_standards_bootstrap(app)
    await init_app_state(engine, app.state, args, tasks)
    _change_serving(app.state, compile_service)
    app.state.compile_service = compile_service
    return app


def _add_constraints(
    app: FastAPI,
    args: Namespace,
    engine: GuidedEngine,
    compile_service: CompileService,
    settings: Settings,
    backends: VllmBackends | None,
    tasks: tuple[SupportedTask, ...],
) -> None:
    """What reads a request's constraint and tools. To be called before vLLM makes anything of `args`, which may get a tool parser."""
    model_type = engine.model_config.hf_config.model_type
    app.add_middleware(
        ConstraintMiddleware,
        compile_service=compile_service,
        convention=convention_of(args.tool_call_parser, args.enable_auto_tool_choice, args.model),
        tool_bytes=settings.constraint_bytes,
        built_in_tools=model_type == "gpt_oss" and args.tool_server is not None,
        backends=backends,
        generates="generate" in tasks,
    )
    use_where_none_is_set(args, model_type)


def _add_limits(app: FastAPI, settings: Settings, keys: KeyRing, load: Load | None) -> None:
    """What a request has to pass before it is parsed."""
    app.add_middleware(
        BodyLimits,
        most_bytes=settings.body_bytes,
        seconds=settings.body_seconds,
        nesting=settings.body_nesting,
        values=settings.body_values,
    )
    if load is not None:
        app.add_middleware(LoadReports, load=load)
    app.add_middleware(
        Gate,
        keys=keys,
        availability=app.state.availability,
        allowance=settings.allowance,
        open_paths=settings.paths_without_key,
        admin_port=settings.admin_port is not None,
    )


def _add_routes(app: FastAPI, args: Namespace, engine: GuidedEngine, tasks: tuple[SupportedTask, ...]) -> None:
    """vLLM's and ours, and the answers to what goes wrong in them."""
    app.include_router(probes.router)  # its version, not vLLM's alone
    register_api_routers(args, app, tasks, engine.model_config)
    app.include_router(guided.router)
    app.include_router(models.router)
    add_refusals(app)
    add_playground(app)
    attach_endpoint_plugins(app, tasks)
    describe_constraints(app)
    init_exception_handler(app)
    install_handlers(app)
    app.exception_handler(EngineDeadError)(_engine_died)


async def _add_observation(
    app: FastAPI, engine: GuidedEngine, compile_service: CompileService, measured_every: int
) -> None:
    """Metrics and, where they are wanted, traces."""
    registry = get_prometheus_registry()
    registry.register(CompileMetrics(compile_service))
    registry.register(MaskMetrics(engine.vllm_config.instance_id))
    tracing = Tracing(trace.get_tracer("guided-server")) if await engine.is_tracing_enabled() else None
    metrics = RequestMetrics(registry)
    engine.sample = PressureSample(measured_every, engine.reports, metrics.measured)
    app.add_middleware(ObservingMiddleware, record=[metrics.record], around=None if tracing is None else tracing.span)


def _change_serving(state: State, compile_service: CompileService) -> None:
    """What vLLM's serving objects do otherwise here."""
    state.thinking = think_first(state, compile_service)
    put_in_front(state, CallsParser)  # in front of what has taken the thinking off
    serve_honestly(state)
    serve_responses(state)


def _documentation(args: Namespace) -> dict[str, Any]:
    """As vLLM's flags want `/docs` and the like: with the assets that vLLM brings, with those of a public server, or not at all."""
    if args.disable_fastapi_docs:
        args.enable_offline_docs = False  # vLLM adds its page without asking
        return {"openapi_url": None, "docs_url": None, "redoc_url": None}
    return {"docs_url": None, "redoc_url": None} if args.enable_offline_docs else {}


async def _engine_died(request: Request, error: Exception) -> Response:
    """HTTP 503 for a request that the engine took along; another server may answer it."""
    terminate_if_errored(request.app.state.server, request.app.state.engine_client)
    refused = request.app.state.availability.refusal()
    return (refused or RequestRefused(str(error), "engine_dead", status=503)).response()
