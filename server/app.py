"""In: vLLM's arguments, its engine client and a compile service; out: the FastAPI application. Starts nothing."""

from __future__ import annotations

from argparse import Namespace

from fastapi import FastAPI
from vllm.engine.protocol import EngineClient
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.api_server.routers import register_api_routers
from vllm.entrypoints.launchers.utils.server_utils import lifespan
from vllm.entrypoints.serve.exception_handling.register import init_exception_handler
from vllm.entrypoints.serve.middleware.register import init_entrypoints_middleware
from vllm.entrypoints.serve.sagemaker.api_router import sagemaker_standards_bootstrap
from vllm.plugins.endpoint_plugins.interface import attach_endpoint_plugins
from vllm.v1.metrics.prometheus import get_prometheus_registry

from server.compile_metrics import CompileMetrics
from server.compile_service import CompileService
from server.constraint_middleware import ConstraintMiddleware
from server.errors import RequestRefused, refusal
from server.routes import guided
from server.routes.playground import add_playground
from server.tools.conventions import convention_of
from server.tools.list_parser import use_where_none_is_set
from server.tools.serving import serve_honestly


async def create_app(args: Namespace, engine: EngineClient, compile_service: CompileService) -> FastAPI:
    """vLLM's own OpenAI routes and serving objects, with our middleware between its authentication and its routes."""
    tasks = await engine.get_supported_tasks()
    app = FastAPI(title="guided-server", lifespan=lifespan)
    app.state.args = args
    app.root_path = args.root_path or ""
    # The first one added is the innermost: inside vLLM's authentication, and inside its count of requests, so that refusals count.
    convention = convention_of(args.tool_call_parser, args.enable_auto_tool_choice, args.model)
    use_where_none_is_set(args, engine.model_config.hf_config.model_type)
    app.add_middleware(ConstraintMiddleware, compile_service=compile_service, convention=convention)
    register_api_routers(args, app, tasks, engine.model_config)
    app.include_router(guided.router)
    add_playground(app)
    attach_endpoint_plugins(app, tasks)
    init_exception_handler(app)
    app.exception_handler(RequestRefused)(refusal)
    init_entrypoints_middleware(args, app, tasks)
    app = sagemaker_standards_bootstrap(app)
    await init_app_state(engine, app.state, args, tasks)
    serve_honestly(app.state)
    app.state.compile_service = compile_service
    get_prometheus_registry().register(CompileMetrics(compile_service))
    return app
