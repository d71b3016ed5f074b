"""Which models can be used here. Keys are looked for and never read; nobody is called."""

from __future__ import annotations

from core.errors import HandloomError
from core.llm.hosted import ModelHost
from core.llm.providers import key_variables_of
from core.llm.registry import create_llm, offers
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _


def model(patient: Patient) -> Finding:
    """The model of the settings, and whether its key is set; else what could be chosen."""
    name = patient.settings.model
    others = [offer.name for offer in offers(patient.environ, patient.settings.models)]
    if not name:
        if len(others) > 1:
            found = _("none is set; can be used here: {names}").format(names=", ".join(others))
            return Finding(Mark.OK, found)
        return Finding(
            Mark.NOTE,
            _("none is set, and there is no provider's key: only demo can be used"),
            _("Set a provider's key, such as ANTHROPIC_API_KEY, and choose a model with --model or HANDLOOM_MODEL."),
        )
    try:
        create_llm(
            name,
            workspace=str(patient.workspace),
            host=ModelHost(),
            settings=patient.settings.llm,
            models=patient.settings.models,
            environ=patient.environ,
        )
    except HandloomError as error:
        return Finding(Mark.MISSING, str(error), _("Can be used here: {names}").format(names=", ".join(others)))
    variable = next((variable for variable in key_variables_of(name) if patient.environ.get(variable)), "")
    if not variable:
        return Finding(Mark.OK, name)
    return Finding(Mark.OK, _("{name}, with the key in {variable}").format(name=name, variable=variable))
