"""The JSON API of homes: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.accounts.access import accounts_of
from app.accounts.api import me_of
from app.accounts.schemas import NAME_PATTERN
from app.homes import schemas
from app.homes.access import Home, described_home_of, home_of, homes_of
from app.homes.downloads import MEDIA_TYPE, download
from app.homes.errors import FileMissing, NameTaken
from app.homes.home_paths import HomePath
from app.homes.model import COMMON, HOME_FOLDERS, Entry
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import caller_of
from app.kit.web.conditions import IF_MATCH, IF_NONE_MATCH, TAGS, require_match
from app.kit.web.http import json_answer, query
from app.kit.web.operations import Operations
from app.kit.web.thread_stream import hand_over

DAY_S = 86400
NO_STORE = {"Cache-Control": "no-store"}
_ANY_FILE: JsonObject = {
    "required": True,
    "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
}
OPERATIONS = Operations({"name": {"type": "string", "pattern": NAME_PATTERN}})


class FileExists(NameTaken, status=412, code="FILE_EXISTS"):
    """If-None-Match: * was sent, and there is something."""


@OPERATIONS.get("/api/v2/me", "Get my user, the permissions of my token, and the location of my data", schemas.MeAnswer)
def get_me(request: Request) -> Response:
    return json_answer(schemas.MeAnswer(**me_of(request).model_dump(), data=data_of(described_home_of(request))))


def data_of(home: Home) -> schemas.DataAnswer:
    """Where the user's data is and how much of it: told as far as it can be told now."""
    options, usage = home.options, None
    with suppress(ModelmillError):
        usage = home.usage()
    facts = home.sftp() if home.homes.sftp.is_on else None
    sftp = schemas.SftpAnswer(**vars(facts.endpoint), password_token_id=facts.password_token) if facts else None
    return schemas.DataAnswer(
        home=home.logical(""),
        folders={name: home.logical(name) for name in HOME_FOLDERS},
        common=f"{options.prefix}/{COMMON}",
        sftp=sftp,
        quota_bytes=home.quota.size_bytes,
        quota_files=home.quota.files,
        used_files=usage.files if usage else None,
        used_bytes=usage.total_bytes if usage else None,
        used_by_folder=usage.folders if usage else {},
        retention=schemas.RetentionAnswer(
            jobs_trash_after_days=options.retention.trash_after.total_seconds() / DAY_S,
            jobs_purge_after_days=options.retention.purge_after.total_seconds() / DAY_S,
        ),
    )


@OPERATIONS.get(
    "/api/v2/files",
    "List a folder of my data home or of the common folder",
    schemas.FolderAnswer,
    more_errors=(400, 403, 404, 409, 507),
)
def list_files(request: Request, params: schemas.FolderQuery) -> Response:
    home = home_of(request)
    location = home.locate(params.path.removesuffix("/") or params.path)  # a folder may be written with a slash
    page = home.tree(location).browse(location.inner, sort=params.sort, cursor=params.cursor, limit=params.limit)
    entries = [_describe_entry(home, location.below(entry.name), entry) for entry in page.entries]
    path = home.path_of(location)
    return json_answer(schemas.FolderAnswer(path=path, entries=entries, total=page.total, next_cursor=page.next_cursor))


@OPERATIONS.get(
    "/api/v2/files/content",
    "Download a file; Range is honored",
    {200: (MEDIA_TYPE,), 206: (MEDIA_TYPE,), 304: None},
    more_errors=(400, 403, 404, 409, 416, 507),
)
def get_file(request: Request, params: schemas.FileQuery) -> Response:
    home = home_of(request)
    return download(request, home, home.locate(params.path))


@OPERATIONS.put(
    "/api/v2/files/content",
    "Upload a file as the request body; If-None-Match: * and If-Match protect an existing file",
    {200: schemas.EntryAnswer, 201: schemas.EntryAnswer},
    more_errors=(403, 404, 409, 412, 507),
    query=schemas.FileQuery,
    body=_ANY_FILE,
    sent_headers={IF_MATCH: TAGS, IF_NONE_MATCH: TAGS},
)
async def put_file(request: Request) -> Response:
    """The body is the file, as it is; it streams to its place and appears there when it is whole."""
    params, home = query(request, schemas.FileQuery), await run_in_threadpool(home_of, request)
    path, may_replace = home.own(params.path), request.headers.get(IF_NONE_MATCH, "").strip() != "*"
    is_new = not await run_in_threadpool(_is_there, home, path)
    write = partial(
        home.files.write,
        home.user,
        path,
        replace=may_replace,
        require=partial(require_match, request),
        expected_bytes=_read_length(request),
        quota=home.quota,
    )
    try:
        entry = await hand_over(request.stream(), write)
    except NameTaken as error:
        raise FileExists(error.message, hint="Leave out If-None-Match to write over it.") from None
    return json_answer(_describe_entry(home, HomePath(path.removeprefix("/")), entry), 201 if is_new else 200)


@OPERATIONS.post(
    "/api/v2/files/folders", "Create a folder", {201: schemas.PlaceAnswer}, more_errors=(403, 404, 409, 507)
)
def make_folder(request: Request, body: schemas.NewFolder) -> Response:
    home = home_of(request)
    path = home.own(body.path)
    home.files.make_folder(home.user, path, quota=home.quota)
    return json_answer(schemas.PlaceAnswer(path=home.logical(path.removeprefix("/"))), 201)


@OPERATIONS.post(
    "/api/v2/files/move",
    "Move or rename a file or folder, also out of the trash",
    schemas.PlaceAnswer,
    more_errors=(403, 404, 409, 507),
)
def move_file(request: Request, body: schemas.Move) -> Response:
    home = home_of(request)
    source, target = home.own(body.source, field="source"), home.own(body.target, field="target")
    home.files.move(home.user, source, target)
    return json_answer(schemas.PlaceAnswer(path=home.logical(target.removeprefix("/"))))


@OPERATIONS.delete(
    "/api/v2/files",
    "Move a file or folder to the trash; one in the trash is deleted permanently",
    schemas.RemovedAnswer,
    more_errors=(400, 403, 404, 409, 412, 507),
    sent_headers={IF_MATCH: TAGS},
)
def remove_file(request: Request, params: schemas.FileQuery) -> Response:
    home = home_of(request)
    path, require = home.own(params.path), partial(require_match, request)
    trashed = home.files.remove(home.user, path, now=now(), require=require)
    return json_answer(schemas.RemovedAnswer(trashed_to=home.logical(trashed) if trashed else None))


@OPERATIONS.post(
    "/api/v2/me/sftp-password",
    "Create a one-time SFTP password; the previous one becomes invalid",
    {201: schemas.OneTimePassword},
    more_errors=(404,),
)
def reset_sftp_password(request: Request) -> Response:
    caller = caller_of(request)
    password = homes_of(request).sftp.reset_password(caller.user, by=caller.user, token_id=caller.token_id)
    return json_answer(schemas.OneTimePassword(password=password), 201, NO_STORE)


@OPERATIONS.post(
    "/api/v2/users/{name}/sftp-reset",
    "Create a one-time SFTP password for a user, shown only once; the previous one becomes invalid (administrators)",
    {201: schemas.OneTimePassword},
)
def reset_sftp_password_of(request: Request, name: str) -> Response:
    """By an administrator."""
    user = accounts_of(request).users.get(name).name
    caller = caller_of(request)
    password = homes_of(request).sftp.reset_password(user, by=caller.user, token_id=caller.token_id)
    return json_answer(schemas.OneTimePassword(password=password), 201, NO_STORE)


@OPERATIONS.put("/api/v2/me/sftp-password", "Set my SFTP password", {204: None}, more_errors=(404,))
def set_sftp_password(request: Request, body: schemas.NewPassword) -> None:
    caller = caller_of(request)
    homes_of(request).sftp.set_password(caller.user, body.password, by=caller.user, token_id=caller.token_id)


@OPERATIONS.get("/api/v2/me/ssh-keys", "List my public keys for SFTP", schemas.KeysAnswer, more_errors=(404,))
def get_ssh_keys(request: Request) -> Response:
    return _answer_keys(request)


@OPERATIONS.put("/api/v2/me/ssh-keys", "Replace my public keys for SFTP", schemas.KeysAnswer, more_errors=(404,))
def set_ssh_keys(request: Request, body: schemas.Keys) -> Response:
    caller = caller_of(request)
    homes_of(request).sftp.set_keys(caller.user, body.keys, by=caller.user, token_id=caller.token_id)
    return _answer_keys(request)


def _answer_keys(request: Request) -> Response:
    home = described_home_of(request)
    return json_answer(schemas.KeysAnswer(keys=home.ssh_keys(), tokens=home.homes.sftp.facts(home.user).key_tokens))


def _describe_entry(home: Home, location: HomePath, entry: Entry) -> schemas.EntryAnswer:
    return schemas.entry_answer(entry, home.path_of(location), to_text(entry.modified_at))


def _is_there(home: Home, path: str) -> bool:
    try:
        home.files.info(home.user, path)
    except FileMissing:
        return False
    return True


def _read_length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0
