"""The settings of commands, with the policies folder that the parts of the deployment noted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.deployment.policies_folder import is_folder_here, noted_policies_folder
from gateway.deployment.run_files import running_parts
from policies.errors import SettingsError

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings

VARIABLE: Final = "SCOREGATE_POLICIES_DIR"


def with_policies_folder(settings: Settings) -> Settings:
    """Return the settings, with the noted policies folder unless one is configured. Raises OSError."""
    if "policies_dir" in settings.model_fields_set:
        return settings
    noted = noted_policies_folder(settings.data_dir)
    return settings if noted is None else settings.model_copy(update={"policies_dir": noted})


def as_last_run(settings: Settings) -> Settings:
    """Return the settings as `with_policies_folder`, for who starts the deployment again.

    Raises SettingsError if the folder is not here any more, and OSError.
    """
    again = with_policies_folder(settings)
    if not is_folder_here(again.policies_dir) and "policies_dir" not in settings.model_fields_set:
        raise SettingsError(
            f"the deployment in {settings.data_dir} ran on the policies of {again.policies_dir}, which is "
            f"not a folder here; set {VARIABLE} to where they are now"
        )
    return again


def at_its_address(settings: Settings) -> Settings:
    """Return the settings, with the address of the edge over the data directory unless one is configured."""
    if "bind" in settings.model_fields_set:
        return settings
    with suppress(OSError):  # the notes may be another user's, who runs the parts
        if bind := next((part.bind for part in running_parts(settings.data_dir) if part.bind), None):
            return settings.model_copy(update={"bind": bind})
    return settings


def with_same_policies(settings: Settings) -> Settings:
    """Return the settings as `with_policies_folder`, for a command that writes by the policies.

    Raises SettingsError if the folder is not that of the deployment, or not known, and OSError.
    """
    noted = noted_policies_folder(settings.data_dir)
    is_configured = "policies_dir" in settings.model_fields_set
    if noted is None:
        if settings.is_on_postgres and not is_configured:
            raise SettingsError(
                f"{VARIABLE}: set it to the policies of this deployment: no part has run over "
                f"{settings.data_dir}, so they are not known here"
            )
        return settings
    if not is_folder_here(noted):  # such as that of a container
        if is_configured:
            return settings
        raise SettingsError(
            f"the deployment in {settings.data_dir} runs on the policies of {noted}, which is not a folder "
            f"here; set {VARIABLE} to the same policies"
        )
    if is_configured and settings.policies_dir.resolve() != noted.resolve():
        raise SettingsError(
            f"{VARIABLE} is {settings.policies_dir}, and the deployment in {settings.data_dir} runs on the "
            f"policies of {noted}; unset it, or start the deployment with it first"
        )
    return settings.model_copy(update={"policies_dir": noted})
