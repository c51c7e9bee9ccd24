"""How programs are told secrets without saying so: by short flags, by the place of a word, by members of a list.

`--hub_token x` says by its name what follows. `curl -u bob:pw` and `htpasswd -b file bob pw` do not: each program
decides that for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["HINTS", "PROGRAMS", "Use"]


@dataclass(frozen=True, slots=True)
class Use:
    """One way in which a program takes secrets.

    Attributes:
        flags: those with a secret.
        glued: whether the secret may follow a short flag in the same word.
        after: the word after which this holds, so that `docker run -p 80:80` stays readable; "" for the whole command.
        first: the number of the first secret among the words after `after` that are no flags; None where none is.
        members: whether words after `after` are `name=value`, each with a secret.
    """

    flags: tuple[str, ...] = ()
    glued: bool = True
    after: str = ""
    first: int | None = None
    members: bool = False


def _flags(*flags: str, after: str = "", glued: bool = True) -> tuple[Use, ...]:
    return (Use(flags, glued=glued, after=after),)


def _words(**first: int) -> tuple[Use, ...]:
    """Return uses whose words after a subcommand are secrets from some number on."""
    return tuple(Use(after=after, first=number) for after, number in first.items())


def _members(*subcommands: str) -> tuple[Use, ...]:
    return tuple(Use(after=each, members=True) for each in subcommands)


_PASSWORD = _flags("-p")
_LOGIN = _flags("-p", after="login")
_KEY = _words(login=0)

_TABLE: tuple[tuple[Iterable[str], tuple[Use, ...]], ...] = (
    (("curl",), _flags("-u", "-U", "--user", "--proxy-user", "-b", "--cookie", "--pass")),
    (("http", "https"), _flags("-a", "--auth")),
    (("sshpass", "twine", "mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlpump"), _PASSWORD),
    (("mariadb", "mariadb-dump", "mariadb-admin"), _PASSWORD),
    (("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "mongostat"), _PASSWORD),
    (("docker", "podman", "nerdctl", "buildah", "skopeo", "crane", "oras", "helm", "cosign"), _LOGIN),
    (("az",), (*_LOGIN, *_flags("--value", after="secret"))),
    (("aws",), _flags("--value", after="put-parameter")),
    (("gh", "glab"), _flags("-b", "--body", "-v", "--value", after="secret")),
    (("kubectl", "oc"), _flags("--from-literal")),
    (("redis-cli",), _flags("-a")),
    (("smbclient",), _flags("-U")),
    (("lftp",), _flags("-u")),
    (("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami"), _flags("-w")),
    (("ldappasswd",), _flags("-w", "-s", "-a")),
    (("sqlcmd", "zip", "unzip"), _flags("-P")),
    (("7z", "7za", "7zr", "7zz"), _flags("-p")),
    (
        ("openssl",),
        (
            Use(("-passin", "-passout", "-pass", "-password", "-k", "-K", "-hmac", "-macopt"), glued=False),
            *_words(passwd=0),
        ),
    ),
    (("ssh-keygen",), _flags("-N", "-P")),
    (("keytool", "jarsigner"), _flags("-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-new")),
    (("doctl",), _flags("-t")),
    (("kaggle",), _flags("-v", after="set")),
    (("wandb", "huggingface-cli", "hf", "cargo", "comet"), _KEY),
    (("vault",), (*_KEY, *_members("put", "patch", "write"))),
    (("consul", "etcdctl"), _words(put=1)),
    (("htpasswd", "wpa_passphrase"), (Use(first=1),)),
    (("mc", "mcli"), _words(set=1, add=1)),
    (("rabbitmqctl",), _words(add_user=1, change_password=1, authenticate_user=1)),
    (("ngrok",), (*_words(authtoken=0), Use(after="add-authtoken", first=0))),
    (("pulumi",), _words(set=1)),
    (("rclone",), _words(create=2, update=1)),
    (("dvc",), _words(modify=2)),
)
PROGRAMS: Mapping[str, tuple[Use, ...]] = {name: uses for names, uses in _TABLE for name in names}
"""What each program takes for a secret, by the name of its file."""

HINTS = (
    "curl", "sshpass", "mysql", "mariadb", "mongo", "login", "redis-cli", "smbclient", "lftp", "ldap", "sqlcmd", "zip",
    "7z", "openssl", "ssh-keygen", "twine", "doctl", "http ", '"http","-', '"https","-', "from-literal", "kaggle",
    "put-parameter", "vault", "consul", "etcdctl", "alias", "mc ", '"mc"', "mcli", "rabbitmqctl", "pulumi", "rclone",
    "dvc",
)  # fmt: skip
"""Lower-case pieces, one of which is in every command in which a program alone says that a word is secret."""
