"""Pure decisions: who owns an object, what a rule asks for, what to do about a copy."""
