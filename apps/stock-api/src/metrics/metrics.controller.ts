import { Controller, Get, Req, Res } from '@nestjs/common';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** What Prometheus scrapes. It names methods, so keep it inside your network. */
@Controller('metrics')
export class MetricsController {
  constructor(private readonly exporter: PrometheusExporter) {}

  @Get()
  show(@Req() request: IncomingMessage, @Res() response: ServerResponse): void {
    this.exporter.getMetricsRequestHandler(request, response);
  }
}
