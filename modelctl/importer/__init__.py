"""Import external models into a model repository: ONNX files, and ONNX models logged with MLflow."""
