"""stub, being written"""
class ScriptText(str):
    def show(self): print(self)
    def html(self): return f"<pre>{self}</pre>"
def print_node(node, **options):
    return ScriptText(f"<{type(node).__name__} " + " ".join(f"{k}={getattr(node,k)}" for k in node.__dataclass_fields__ if k not in("span","ty","infer","doc","lower","gradient","params")) + ">")
