from __future__ import annotations

import importlib.metadata
import sys
import textwrap

import pytest

from muster.strategies import FrameworkStrategy, PluginImportError, Registry
from muster.strategies.frameworks import builtin
from muster.strategies.frameworks.default.default_strategy import DefaultStrategy
from tests.support import plugins

MODULE = """
    class {name}:
        framework = {framework!r}
        version = "3"

        def enforce_command(self, job, changes): ...
        def enforce_rendezvous(self, job, changes): ...
        def enforce_claims(self, job, changes): ...
        def validate(self, job): return ()

    instance = {name}()
"""


class Acme(plugins.Quiet):
    pass


class Other(plugins.Quiet):
    pass


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay a distribution with one entry point on the path, as pip would; return its folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def lay(distribution, entry_point, source, version="2.5"):
        module = entry_point.partition("=")[2].partition(":")[0].strip()
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        folder = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (folder / "entry_points.txt").write_text(f"[muster.strategies]\n{entry_point}\n")
        made.append(module)
        importlib.invalidate_caches()

    yield lay
    for module in made:
        sys.modules.pop(module, None)


def load():
    return builtin.load()


def test_every_in_tree_strategy_is_one():
    frameworks = [registered.strategy.framework for registered in builtin.load(plugins=False)]
    assert frameworks == ["torch", "torchtune", "trl", "vllm", "default"]
    assert all(isinstance(registered.strategy, FrameworkStrategy) for registered in builtin.load(plugins=False))
    assert not builtin.load(plugins=False).has_plugins


@pytest.mark.parametrize("framework", ["jax", "", None, "TRL", "trl "])
def test_any_other_framework_gets_the_default_one(framework):
    assert builtin.load(plugins=False).get(framework).strategy.framework == "default"


def test_two_strategies_of_one_framework_are_both_named():
    every = Registry(DefaultStrategy())
    every.register(Acme(), "pkg-a 1.0")
    with pytest.raises(ValueError, match="framework 'acme' has two strategies") as refused:
        every.register(Other(), "pkg-b 2.0")
    message = str(refused.value)
    for part in (".Acme (pkg-a 1.0)", ".Other (pkg-b 2.0)", "uninstall one"):
        assert part in message


def test_a_plugin_cannot_shadow_an_in_tree_strategy():
    every = builtin.load(plugins=False)
    plugin = Acme()
    plugin.framework = "trl"
    with pytest.raises(
        ValueError, match=r"samplers\.sampled_strategy\.SampledTRLStrategy \(in-tree\) and .*Acme \(pkg 1\)"
    ):
        every.register(plugin, "pkg 1")


def test_a_plugin_cannot_take_the_place_of_the_default():
    plugin = Acme()
    plugin.framework = "default"
    with pytest.raises(ValueError, match=r"DefaultStrategy \(in-tree\) and .*Acme"):
        Registry(DefaultStrategy()).register(plugin, "pkg 1")


@pytest.mark.parametrize("framework", ["", " ", "a b", "a/b", "x" * 64, "-a", "ümlaut", "a\n"])
def test_a_framework_that_no_label_can_hold_is_refused(framework):
    """The empty one would serve every runtime without a label."""
    plugin = Acme()
    plugin.framework = framework
    with pytest.raises(ValueError, match=r"Acme \(pkg 1\).* is not a valid label value"):
        Registry(DefaultStrategy()).register(plugin, "pkg 1")


@pytest.mark.parametrize(
    "member", ["enforce_command", "enforce_rendezvous", "enforce_claims", "validate", "framework", "version"]
)
@pytest.mark.parametrize("value", [None, 5])
def test_a_missing_member_is_named(member, value):
    plugin = Acme()
    setattr(plugin, member, value)
    with pytest.raises(TypeError, match=rf"Acme \(pkg 1\) lacks {member}$"):
        Registry(DefaultStrategy()).register(plugin, "pkg 1")


def test_all_missing_members_are_named_at_once():
    with pytest.raises(TypeError, match=r"lacks enforce_command, .*, validate, framework, version"):
        Registry(DefaultStrategy()).register(object(), "pkg 1")


def test_a_registered_strategy_says_what_it_is_and_whose():
    every = Registry(DefaultStrategy())
    every.register(Acme(), "pkg 1.0")
    assert str(every.get("acme")) == "acme 1 (pkg 1.0)"
    assert every.has_plugins
    assert [str(each) for each in every] == ["acme 1 (pkg 1.0)", "default 1 (in-tree)"]


@pytest.mark.parametrize("attribute", ["Acme", "instance"])
def test_an_entry_point_may_name_a_class_or_an_object(install, attribute):
    install("muster-acme", f"acme = acme_strategy_a:{attribute}", MODULE.format(name="Acme", framework="acme"))
    found = load().get("acme")
    assert (found.strategy.version, found.origin, found.in_tree) == ("3", "muster-acme 2.5", False)


def test_plugins_can_be_left_out(install):
    install("muster-acme", "acme = acme_strategy_b:Acme", "raise RuntimeError")
    assert builtin.load(plugins=False).get("acme").strategy.framework == "default"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("def (", "SyntaxError"),
        ("x = 1", "AttributeError"),
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Acme:\n    def __init__(self): raise OSError('no disk')", "OSError: no disk"),
        ("class Acme:\n    def __init__(self, needed): ...", "TypeError"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named_with_its_package(install, source, cause):
    install("muster-acme", "acme = acme_strategy_c:Acme", source)
    with pytest.raises(PluginImportError) as refused:
        load()
    message = str(refused.value)
    assert message.startswith("entry point acme = acme_strategy_c:Acme of muster-acme 2.5 cannot be loaded: ")
    assert cause in message
    assert "uninstall" in message


@pytest.mark.parametrize("source", ["Acme = 5", "class Acme:\n    framework = 'acme'", "def Acme(): ..."])
def test_an_entry_point_that_is_no_strategy_is_named_with_its_package(install, source):
    install("muster-acme", "acme = acme_strategy_d:Acme", source)
    with pytest.raises(TypeError, match=r"\(muster-acme 2\.5\) lacks"):
        load()


def test_two_packages_with_one_framework_are_both_named(install):
    install("muster-one", "acme = acme_one:One", MODULE.format(name="One", framework="acme"))
    install("muster-two", "acme = acme_two:Two", MODULE.format(name="Two", framework="acme"))
    with pytest.raises(ValueError, match=r"acme_one\.One \(muster-one 2\.5\) and acme_two\.Two \(muster-two 2\.5\)"):
        load()


def test_a_property_that_raises_is_named_with_its_package(install):
    source = MODULE.format(name="Acme", framework="acme") + "\n    Acme.version = property(lambda self: 1 / 0)\n"
    install("muster-acme", "acme = acme_strategy_e:Acme", source)
    with pytest.raises(PluginImportError, match=r"of muster-acme 2\.5 cannot be loaded: ZeroDivisionError"):
        load()


def test_a_shipped_strategy_is_made_once_and_only_when_its_framework_is_asked_for():
    made = []
    every = Registry(DefaultStrategy(), {"acme": lambda: made.append("acme") or Acme(), "other": Acme})
    assert every.get("trl").strategy.framework == "default"
    assert made == []
    assert every.get("acme") is every.get("acme")
    assert (every.get("acme").in_tree, made) == (True, ["acme"])
