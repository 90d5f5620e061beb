"""A page of its own: a template filled with text, figures and numbers, nothing loaded."""

from typing import Any

import jinja2
from plotly.offline import get_plotlyjs


def filled(template: str, **values: Any) -> str:
    """The page as text; a value that the template asks for and that is not given is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(template).render(plotly_js=get_plotlyjs(), **values)
