"""Pure decisions: the owner of an object, the matches of a rule, the next write of a copy."""
