"""A request's way from top to bottom: authenticate → look up → assemble → forward → stream back.

Read this file first. Everything here takes values and ports; which host carries it is not known.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from itertools import chain, islice

from . import (
    account,
    admin,
    admission,
    back,
    cache,
    cors,
    flight,
    forward,
    grant,
    guard_input,
    headers,
    health,
    hits,
    probe,
    prompt,
    rate,
    revocations,
)
from .description import DOCUMENT
from .errors import (
    EdgeError,
    Forbidden,
    MethodNotAllowed,
    ModelNotFound,
    NotFound,
    StoreDown,
)
from .exchange import Exchange
from .guard_rules import RULES
from .ports import Call, Operation, Reply, Source
from .request import ChatRequest, parse
from .routes import Route
from .templates import TEMPLATES, Template


async def handle(x: Exchange) -> Reply:
    """Answer one request, whatever it is; a failure becomes the OpenAI error object."""
    try:
        reply = await _dispatch(x)
    except EdgeError as error:
        reply = refuse(x, error)
    except Exception as fault:  # noqa: BLE001 - ours: it must not end the instance's other requests
        x.ports.log(account.fault_line(fault, x.account.request_id))
        reply = refuse(x, EdgeError("The edge failed; its log names this request."))
    crossing = cors.headers(x.settings.origins, x.header("origin"))
    return replace(reply, headers=(*reply.headers, *crossing)) if crossing else reply


async def chat(x: Exchange) -> Reply:
    """The request path."""
    # authenticate: nothing is read before we know who asks
    claims = await x.authenticate()
    wants_record = x.header("x-nearfar-trace") == "1"
    if "chat" not in claims.permissions or (wants_record and "trace" not in claims.permissions):
        raise Forbidden("This key does not have the permission for that.")
    revocations.check(x)
    x.mark("authenticate")

    # receive
    body = await x.inbound.body(x.settings.max_body_bytes)
    request, template = parse(body), TEMPLATES[x.settings.template]
    route = _route(x, request, template)
    x.mark("receive")

    # guard: what may not pass goes nowhere, not into a cache key either
    request = _guard(x, request, len(body))
    cap = prompt.output_cap(request, route, template, x.settings.max_tokens)
    x.mark("guard")

    # look up: the near store, never anything far
    cache_control = headers.joined(x.inbound.headers, "cache-control")
    has_store = x.ports.store is not None
    policy = cache.policy(request, x.header("x-nearfar-cache"), cache_control, has_store)
    name = _name(x, request, route, template, cap) if policy.keep else ""
    entry, lead = await _look_up(x, name, policy, route.upstream.name)
    x.mark("look_up")
    await _check_rate(x, entry, lead)
    if entry is not None:
        return back.replay(x, request, entry, wants_record)

    # somebody else may be asking the same thing right now
    if x.account.cache == "miss" and lead is None:
        joined = await _join(x, name)
        x.mark("follow")
        if isinstance(joined, cache.Entry):
            x.account.cache = "shared"
            rate.tell(x)
            return back.replay(x, request, joined, wants_record)
        if isinstance(joined, flight.Live):
            x.account.cache = "shared"
            rate.tell(x)
            again = functools.partial(_ask_again, x, request, route, template, cap)
            return await back.stream_back(x, request, joined, None, wants_record, again)
        lead = joined
    if lead is None and policy.keep:
        lead = flight.alone(x, name)

    # admit, assemble, forward
    try:
        admission.check(x, route.upstream.name)
        x.mark("admit")
        call = _call(x, request, route, template, cap)
        x.mark("assemble", "t3")
        answer = await forward.send(x, route.upstream.name, call)
    except EdgeError:
        x.mark("model_call")
        if lead is not None:
            await lead.finish(None)
        raise

    # stream back
    if forward.is_stream(answer):
        return await back.stream_back(x, request, answer.body, lead, wants_record)
    return await back.pass_whole(x, request, answer, lead, wants_record)


async def _ask_again(
    x: Exchange, request: ChatRequest, route: Route, template: Template, cap: int | None
) -> Source:
    """Ask for oneself after all: whoever was followed is gone."""
    x.account.cache = "miss"
    x.mark("follow")
    call = _call(x, request, route, template, cap)
    x.mark("assemble", "t3")
    return (await forward.send(x, route.upstream.name, call)).body


def _call(
    x: Exchange, request: ChatRequest, route: Route, template: Template, cap: int | None
) -> Call:
    """The request for the model server, no longer than the host's deadline allows."""
    heading = x.rules.system_heading if x.rules else ""
    fields = prompt.assemble(request, route, template, cap, heading)
    name = "max_completion_tokens" if fields.get("max_completion_tokens") else "max_tokens"
    asked = fields[name]
    bound = admission.bound(x, route.upstream.name, asked)
    if bound < asked:
        fields[name] = bound
        x.passed += (("x-nearfar-max-tokens", str(bound)),)
        x.may_keep = False  # another request may have more time
    if route.upstream.kind == "vllm" and x.claims is not None:
        own = fields.get("cache_salt")
        fields["cache_salt"] = grant.salt(x.settings.key_secret, x.claims.tenant, own)
    return forward.call(x, route, fields)


async def models(x: Exchange) -> Reply:
    """The models of the routing table that this key may call."""
    claims = await x.authenticate()
    if "chat" not in claims.permissions:
        raise Forbidden("This key does not have the permission `chat`.")
    await revocations.refresh(x)
    revocations.check(x)
    names = [name for name in x.settings.routes.models if claims.allows_model(name)]
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "nearfar"} for name in names]
    return respond(x, 200, {"object": "list", "data": data})


def respond(x: Exchange, status: int, document: object) -> Reply:
    """A small JSON answer, with a line in the log unless it only says how the edge is."""
    x.account.status = status
    if x.claims is not None:
        back.log(x)
    body = json.dumps(document, separators=(",", ":")).encode()
    head = (*back.common_headers(x), ("content-type", "application/json"))
    return Reply(status, (*head, ("content-length", str(len(body)))), body)


def refuse(x: Exchange, error: EdgeError) -> Reply:
    """The OpenAI error object, with a line in the log."""
    x.mark(error.stage)
    x.account.error, x.account.status = error.code, error.status
    back.log(x)
    rate.give_back(x, error)
    if x.after:
        x.ports.spawn(x.settle())
    body = error.body()
    common = (*back.common_headers(x), *x.passed)
    head = (*common, ("content-type", "application/json"), *error.headers)
    return Reply(error.status, (*head, ("content-length", str(len(body)))), body)


async def _dispatch(x: Exchange) -> Reply:
    routes = headers.match(x.inbound.path)
    if not routes:
        raise NotFound("There is no such route; docs/http.md lists them.")
    methods = ", ".join([*(route.method for route in routes), "OPTIONS"])
    if x.inbound.method == "OPTIONS":
        head = (*back.common_headers(x), ("allow", methods))
        is_preflight = bool(x.header("access-control-request-method"))
        if is_preflight and cors.allows(x.settings.origins, x.header("origin")):
            head += cors.preflight(methods)
        return Reply(204, head, b"")
    if x.inbound.method not in {route.method for route in routes}:
        allow = (("allow", methods),)
        raise MethodNotAllowed("This route does not have that method.", headers=allow)
    path = routes[0].path
    if path == "/v1/chat/completions":
        return await chat(x)
    if path == "/v1/models":
        return await models(x)
    if path == "/healthz":
        return respond(x, 200, {"status": "ok"})
    if path == "/openapi.json":
        return respond(x, 200, DOCUMENT)
    of_the_operator = {"/readyz": health.ready, "/probe": probe.handle}
    return respond(x, *await of_the_operator.get(path, admin.handle)(x))


def _route(x: Exchange, request: ChatRequest, template: Template) -> Route:
    route = x.settings.routes.models.get(request.model)
    if x.claims is None or route is None or not x.claims.allows_model(route.name):
        raise ModelNotFound(
            "There is no such model for this key; GET /v1/models lists them.", param="model"
        )
    category = x.header("x-nearfar-category")
    x.account.labels |= {
        "route_table": x.settings.routes.version,
        "route": route.upstream.name,
        "model": route.name,
        "model_revision": route.revision,
        "template_version": template.version,
        "category": category if category in x.settings.categories else None,
        "streamed": request.stream,
    }
    return route


async def _look_up(
    x: Exchange, name: str, policy: cache.Policy, upstream: str
) -> tuple[cache.Entry | None, flight.Lead | None]:
    if policy.read:
        x.account.cache = "miss"
    others = (revocations.due(x), admission.due(x, upstream))
    rates = rate.due(x)
    # What is asked along with something else costs no trip.
    told_along = hits.due(x) if policy.read or any(others) or rates else ()
    asked: tuple[tuple[Operation, ...], ...] = (told_along, rates, *others)
    try:
        entry, lead, found = await flight.look_up(x, name, policy, *chain(*asked))
    except StoreDown:
        x.account.cache = "bypass" if not policy.read else "miss"
        return None, flight.alone(x, name) if policy.read else None
    values = iter(found)
    told, counted, revoked, load = (list(islice(values, len(gets))) for gets in asked)
    if told:
        hits.learn(x, *told)
    rate.learn(x, rates, counted)
    if load:
        admission.learn(x, upstream, *load)
    if revoked:
        revocations.learn(x, revoked[0] if isinstance(revoked[0], bytes) else None)
        revocations.check(x)
    return entry, lead


async def _check_rate(x: Exchange, entry: cache.Entry | None, lead: flight.Lead | None) -> None:
    """Turn away a request above a limit, be it a hit; another may lead then."""
    if entry is not None:
        x.account.cache = "hit"
    try:
        rate.check(x)
    except EdgeError:
        if lead is not None:
            await lead.finish(None)
        raise
    if entry is not None:
        rate.tell(x)


def _guard(x: Exchange, request: ChatRequest, size_bytes: int) -> ChatRequest:
    """The request as the guardrails let it pass."""
    x.rules = rules = RULES[x.settings.guardrails]
    x.account.labels["guardrails"] = rules.version
    checked = guard_input.check(request.fields, rules, size_bytes)
    x.fired(checked.fired)
    return replace(request, fields=checked.fields)


def _name(
    x: Exchange, request: ChatRequest, route: Route, template: Template, cap: int | None
) -> str:
    """What the answer is kept under."""
    tenant, rules = x.claims.tenant if x.claims else "", x.rules.version if x.rules else ""
    return cache.key(request, route, tenant, template.version, cap, rules)


async def _join(x: Exchange, name: str) -> cache.Entry | flight.Live | flight.Lead | None:
    try:
        return await flight.join(x, name)
    except StoreDown:
        return None
