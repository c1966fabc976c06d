"""From `lax.*` back to `relax.*`: calls and idioms as the operators that they compute."""
