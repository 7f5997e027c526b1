"""The volumes of a pod as folders: Secrets, ConfigMaps, the service account's token, and disks."""

import base64
import os
import pathlib
import shutil

from tests.support.e2e import api_client


class Waiting(Exception):
    """Something that the pod refers to does not exist yet; a kubelet tries again."""


class Volumes:
    """The folders of one pod's volumes."""

    def __init__(self, api: api_client.Api, pod: api_client.Object, folder: pathlib.Path) -> None:
        self._api = api
        self._meta = pod["metadata"]
        self._spec = pod["spec"]
        self._folder = folder
        self._group: int = pod["spec"].get("securityContext", {}).get("fsGroup", 0)

    def folder(self, name: str) -> tuple[pathlib.Path, bool]:
        """The folder of a volume, and whether it is read-only by its kind. Raises Waiting."""
        (volume,) = [each for each in self._spec["volumes"] if each["name"] == name]
        path = self._folder / name
        if "emptyDir" in volume:
            if not path.exists():
                path.mkdir()
                _own(path, self._group, 0o2777 if self._group else 0o777)
            return path, False
        if "persistentVolumeClaim" in volume:
            return self._claimed(volume["persistentVolumeClaim"]["claimName"]), False
        if not path.exists():
            files = self._files(volume)
            made = path.with_suffix(".new")
            made.mkdir(mode=0o755)
            self._write(made, files)
            made.rename(path)
        elif "secret" in volume:
            # A kubelet has written what was changed since, at the latest when it starts a container again.
            self._write(path, self._files(volume))
        return path, True

    def object(self, kind: str, name: str) -> api_client.Object:
        """A Secret or ConfigMap of the pod's namespace. Raises Waiting."""
        path = f"/api/v1/namespaces/{self._meta['namespace']}/{kind}/{name}"
        found = self._api.find(path)
        if found is None:
            raise Waiting(f"{kind} {name} not found")
        return found

    def remove(self) -> None:
        """Delete the folders; disks stay."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, folder: pathlib.Path, files: list[tuple[str, bytes, int]]) -> None:
        """Write the files that the folder has not, or with other contents."""
        for key, content, mode in files:
            path = folder / key
            if path.exists() and path.read_bytes() == content:
                continue
            made = folder / f".{key}.new"
            made.write_bytes(content)
            _own(made, self._group, mode | (0o440 if self._group else 0))
            made.replace(path)

    def _files(self, volume: api_client.Object) -> list[tuple[str, bytes, int]]:
        """(name, content, mode) of each file."""
        if "secret" in volume:
            source = volume["secret"]
            data = self.object("secrets", source["secretName"])["data"]
            mode = source.get("defaultMode", 0o644)
            return [(key, base64.b64decode(value), mode) for key, value in data.items()]
        if "configMap" in volume:
            source = volume["configMap"]
            data = self.object("configmaps", source["name"])["data"]
            mode = source.get("defaultMode", 0o644)
            return [(key, value.encode(), mode) for key, value in data.items()]
        return [file for source in volume["projected"]["sources"] for file in self._projected(source)]

    def _projected(self, source: api_client.Object) -> list[tuple[str, bytes, int]]:
        if "serviceAccountToken" in source:
            asked = source["serviceAccountToken"]
            return [(asked["path"], self._token(asked).encode(), 0o644)]
        if "configMap" in source:
            data = self.object("configmaps", source["configMap"]["name"])["data"]
            return [
                (each["path"], data[each["key"]].encode(), 0o644) for each in source["configMap"]["items"]
            ]
        (item,) = source["downwardAPI"]["items"]
        assert item["fieldRef"]["fieldPath"] == "metadata.namespace"
        return [(item["path"], self._meta["namespace"].encode(), 0o644)]

    def _token(self, asked: api_client.Object) -> str:
        account = self._spec["serviceAccountName"]
        path = f"/api/v1/namespaces/{self._meta['namespace']}/serviceaccounts/{account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": asked["expirationSeconds"],
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": self._meta["name"],
                    "uid": self._meta["uid"],
                },
            },
        }
        token: str = self._api.create(path, request)["status"]["token"]
        return token

    def _claimed(self, claim: str) -> pathlib.Path:
        namespace = self._meta["namespace"]
        found = self._api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
        name = found["spec"].get("volumeName")
        if not name:
            raise Waiting(f"persistentvolumeclaim {claim} is not bound")
        disk = self._api.get(f"/api/v1/persistentvolumes/{name}")["spec"]["hostPath"]["path"]
        path = pathlib.Path(disk)
        _own(path, self._group, 0o2770)
        return path


def _own(path: pathlib.Path, group: int, mode: int) -> None:
    os.chown(path, 0, group)
    path.chmod(mode)
