import sys

sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # OpenVINO would send usage data when imported
