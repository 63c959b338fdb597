// Shows the OpenAPI document with Redoc. Nothing is asked of any other host; the page's Content-Security-Policy sees to it.
import { init } from "./redoc-3.0.1.js";

const options = {
  disableTelemetry: true,
};

init("../v1/openapi.yaml", options, document.getElementById("reference"));
