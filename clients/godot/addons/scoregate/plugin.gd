## Makes the client an autoload, so that every scene has it as `Scoregate`.
@tool
extends EditorPlugin


func _enable_plugin() -> void:
	add_autoload_singleton("Scoregate", "res://addons/scoregate/scoregate.gd")


func _disable_plugin() -> void:
	remove_autoload_singleton("Scoregate")
