"""The definitions of rules that were here together with the rules of this store, as revisions show it (W3).

Laws: no clock shows it, because that of an API server may be set back · the definition that is named for a rule is the
one with which it was created, or an earlier one.
"""

from __future__ import annotations

from registry_controller.cache.crds import Definition


class RuleDefinitions:
    """The UID of a definition that was here together with each rule, by the rule's name and UID, in `found`.

    A rule that is not here, or was not seen since the definition was there, is left out.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}
        self._rules: dict[str, tuple[str, int]] = {}
        self._listed = 0
        self._definition: Definition | None = None

    def on_rule(self, name: str, *, uid: str, revision: int) -> None:
        """Note that a rule is here since a revision at the latest."""
        if self._rules.get(name, (uid, 0))[0] != uid:
            self.on_gone(name)
        self._rules[name] = (uid, revision)
        self._evaluate(name)

    def on_gone(self, name: str) -> None:
        """Note that there is no rule of a name."""
        known = self._rules.pop(name, None)
        if known is not None:
            self.found.pop((name, known[0]), None)

    def on_list(self, revision: int) -> None:
        """Note that a list is complete at a revision. The caller reports the rules that it lacks as gone, at once."""
        self._listed = revision
        self._evaluate_all()

    def on_definition(self, definition: Definition | None) -> None:
        """Note the definition of rules; None while it is missing. Earlier findings stay true."""
        self._definition = definition
        self._evaluate_all()

    def _evaluate_all(self) -> None:
        for name in self._rules:
            self._evaluate(name)

    def _evaluate(self, name: str) -> None:
        (uid, revision), definition = self._rules[name], self._definition
        if uid and definition is not None and definition.revision <= max(revision, self._listed):
            self.found[name, uid] = definition.uid
