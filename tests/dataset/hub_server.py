"""A small Hub on loopback: what the real client calls to publish a dataset and to load it back.

Repositories with commits (each a whole tree), tags, LFS contents by SHA-256. Requests are recorded; `fail`
makes the next requests to a matching path end in an error, or in a connection that is cut.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from dataset.hub_state import Hub, Repository, git_hash

TOKEN = "hf_" + "t" * 34
LFS_FROM_BYTES = 10_000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args: Any) -> None:
        """Keep the tests' output clean."""

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = self.chunks()
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        path = _as_dataset(unquote(parts.path))
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {path}")
            self.hub.meanwhile(path)
            failure = self.hub.failure(path)
        if failure is not None and failure.status is None:
            self.close_connection = True
            self.connection.close()
            return
        if failure is not None:
            self.json({"error": "told to fail"}, failure.status or 500)
            return
        for pattern, method in ROUTES:
            match = re.fullmatch(pattern, f"{self.command} {path}")
            if match:
                with self.hub.lock:
                    method(self, *match.groups())
                return
        self.json({"error": f"no such route: {self.command} {path}"}, 404)

    def chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def json(self, data: Any, status: int = 200, **headers: str) -> None:
        self.send(json.dumps(data).encode(), status, Content_Type="application/json", **headers)

    def allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self.json({"error": "Invalid username or password."}, 401)
        return False

    def repository(self, name: str) -> Repository | None:
        found = self.hub.repos.get(name)
        if found is None or (found.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"):
            self.json({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            return None
        return found

    def tree_at(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        repo = self.repository(name)
        found = repo.tree(revision) if repo else None
        if repo is not None and found is None:
            self.json({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
        return found

    def create(self) -> None:
        data = json.loads(self.body)
        name = f"{data.get('organization') or 'me'}/{data['name']}"
        if not self.allowed():
            return
        status = 409 if name in self.hub.repos else 200
        if status == 200:
            self.hub.repos[name] = Repository(
                data.get("private") is True or data.get("visibility") == "private"
            )
            self.hub.repos[name].add({".gitattributes": b"*.parquet filter=lfs\n"})
        self.json({"url": f"{self.hub.url}/datasets/{name}"}, status)

    def validate(self) -> None:
        sent = json.loads(self.body)
        front = sent["content"].split("---")[1]
        try:
            data = yaml.safe_load(front)
            model = sent["repoType"] == "model" and data["library_name"]
            good = model or (isinstance(data["configs"], list) and data["license"])
            errors = [] if good else ["no configs"]
        except (yaml.YAMLError, KeyError, TypeError) as error:
            errors = [str(error)]
        messages = [{"message": error} for error in errors]
        self.json({"errors": messages, "warnings": []}, 400 if errors else 200)

    def info(self, name: str, revision: str | None = None) -> None:
        if (found := self.tree_at(name, revision or "main")) is None:
            return
        oid, tree = found
        repo = self.hub.repos[name]
        files = [{"rfilename": path} for path in sorted(tree)]
        self.json(
            {"id": name, "sha": oid, "private": repo.private, "siblings": files, "tags": [], "downloads": 0}
        )

    def refs(self, name: str) -> None:
        if (repo := self.repository(name)) is None:
            return
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repo.head}
        tags = [{"name": k, "ref": f"refs/tags/{k}", "targetCommit": v} for k, v in repo.tags.items()]
        self.json({"branches": [main], "converts": [], "tags": tags})

    def entry(self, path: str, content: bytes) -> dict[str, Any]:
        made: dict[str, Any] = {
            "type": "file",
            "path": path,
            "size": len(content),
            "oid": git_hash(content),
        }
        if len(content) >= LFS_FROM_BYTES:
            oid = hashlib.sha256(content).hexdigest()
            made |= {
                "oid": git_hash(oid.encode()),
                "lfs": {"oid": oid, "size": len(content), "pointerSize": 130},
            }
        return made

    def listing(self, name: str, revision: str, folder: str | None = None) -> None:
        if (found := self.tree_at(name, revision)) is None:
            return
        inside = f"{folder}/" if folder else ""
        paths = [path for path in sorted(found[1]) if path.startswith(inside)]
        if not paths and folder:
            self.json({"error": "no such folder"}, 404, X_Error_Code="EntryNotFound")
            return
        entries, folders = [], set()
        for path in paths:
            parts = path[len(inside) :].split("/")
            folders |= {inside + "/".join(parts[:i]) for i in range(1, len(parts))}
            if self.query.get("recursive", ["false"])[0].lower() in ("true", "1") or len(parts) == 1:
                entries.append(self.entry(path, found[1][path]))
        made = [{"type": "directory", "path": one, "size": 0, "oid": "0" * 40} for one in sorted(folders)]
        self.json(entries + made)

    def paths_info(self, name: str, revision: str) -> None:
        if (found := self.tree_at(name, revision)) is None:
            return
        data = parse_qs(self.body.decode()) if b"paths=" in self.body else json.loads(self.body)
        wanted = data["paths"] if isinstance(data["paths"], list) else [data["paths"]]
        tree = found[1]
        files = [self.entry(path, tree[path]) for path in wanted if path in tree]
        folders = [
            {"type": "directory", "path": path, "size": 0, "oid": "0" * 40}
            for path in wanted
            if path not in tree and any(one.startswith(f"{path}/") for one in tree)
        ]
        self.json(files + folders)

    def preupload(self, name: str, revision: str) -> None:
        if self.allowed() and self.tree_at(name, revision):
            files = json.loads(self.body)["files"]
            modes = [("lfs" if one["size"] >= LFS_FROM_BYTES else "regular", one["path"]) for one in files]
            self.json({"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for m, p in modes]})

    def batch(self, name: str) -> None:
        if not self.allowed():
            return
        objects = []
        for one in json.loads(self.body)["objects"]:
            there = one["oid"] in self.hub.contents
            action = {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}"}}
            objects.append(one if there else {**one, "actions": action})
        self.json({"transfer": "basic", "objects": objects})

    def put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            self.json({"error": "not what was announced"}, 400)
            return
        self.hub.contents[oid] = self.body
        self.hub.uploads.append(oid)
        self.send(b"")

    def commit(self, name: str, revision: str) -> None:
        if not self.allowed() or (repo := self.repository(name)) is None:
            return
        tree = dict(repo.commits[-1][1])
        for line in self.body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            if key == "header" and value.get("parentCommit", repo.head) != repo.head:
                self.json({"error": "A commit has happened since."}, 412)
                return
            if key == "file":
                tree[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile" and value["oid"] not in self.hub.contents:
                self.json({"error": "no such LFS content"}, 400)
                return
            elif key == "lfsFile":
                tree[value["path"]] = self.hub.contents[value["oid"]]
            elif key == "deletedFile":
                del tree[value["path"]]
        oid = repo.add(tree)
        if self.hub.failure("answer to commit"):
            self.close_connection = True
            self.connection.close()
            return
        self.json({"commitUrl": f"{self.hub.url}/datasets/{name}/commit/{oid}", "commitOid": oid})

    def tag(self, name: str, revision: str) -> None:
        if self.allowed() and (repo := self.repository(name)) and (found := repo.tree(revision)):
            repo.tags[json.loads(self.body)["tag"]] = found[0]
            self.json({})

    def resolve(self, name: str, revision: str, path: str) -> None:
        if (found := self.tree_at(name, revision)) is None:
            return
        commit, tree = found
        if path not in tree:
            self.json({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            return
        content = tree[path]
        if self.hub.corrupt == path and self.command == "GET":
            content = content[:-1] + b"?"
        headers = {
            "ETag": f'"{self.entry(path, tree[path]).get("lfs", {}).get("oid") or git_hash(tree[path])}"'
        }
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if span:
            last = int(span[2] or len(content) - 1)
            headers["Content-Range"] = f"bytes {span[1]}-{last}/{len(content)}"
            content = content[int(span[1]) : last + 1]
        self.send(content, 206 if span else 200, X_Repo_Commit=commit, Accept_Ranges="bytes", **headers)


def _as_dataset(path: str) -> str:
    """Models lie beside datasets here, under the names that the Hub's own addresses give them."""
    path = path.replace("/api/models/", "/api/datasets/", 1)
    return re.sub(rf"^/{NAME}(\.git/info/lfs|/resolve/)", r"/datasets/\1\2", path)


NAME = r"([\w.-]+/[\w.-]+?)"
ROUTES: tuple[tuple[str, Any], ...] = (
    (r"POST /api/repos/create", Handler.create),
    (r"POST /api/validate-yaml", Handler.validate),
    (rf"GET /api/datasets/{NAME}", Handler.info),
    (rf"GET /api/datasets/{NAME}/revision/(.+)", Handler.info),
    (rf"GET /api/datasets/{NAME}/refs", Handler.refs),
    (rf"GET /api/datasets/{NAME}/tree/([^/]+)(?:/(.+))?", Handler.listing),
    (rf"POST /api/datasets/{NAME}/paths-info/(.+)", Handler.paths_info),
    (rf"POST /api/datasets/{NAME}/preupload/(.+)", Handler.preupload),
    (rf"POST /datasets/{NAME}\.git/info/lfs/objects/batch", Handler.batch),
    (r"PUT /lfs/([0-9a-f]{64})", Handler.put),
    (rf"POST /api/datasets/{NAME}/commit/(.+)", Handler.commit),
    (rf"POST /api/datasets/{NAME}/tag/(.+)", Handler.tag),
    (rf"(?:GET|HEAD) /datasets/{NAME}/resolve/([^/]+)/(.+)", Handler.resolve),
)


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    """A running Hub."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
