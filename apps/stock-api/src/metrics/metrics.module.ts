import { Module, type OnApplicationShutdown } from '@nestjs/common';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { instrumentLocks } from 'nestjs-locked/opentelemetry';
import { MetricsController } from './metrics.controller.js';

/** The metrics of the locks, for Prometheus. An application with an SDK of its own calls `instrumentLocks()` alone. */
@Module({
  controllers: [MetricsController],
  providers: [
    {
      provide: PrometheusExporter,
      useFactory: () => new PrometheusExporter({ preventServerStart: true }),
    },
  ],
})
export class MetricsModule implements OnApplicationShutdown {
  readonly #meterProvider: MeterProvider;
  readonly #stop: () => void;

  constructor(exporter: PrometheusExporter) {
    this.#meterProvider = new MeterProvider({ readers: [exporter] });
    this.#stop = instrumentLocks({ meterProvider: this.#meterProvider });
  }

  async onApplicationShutdown(): Promise<void> {
    this.#stop();
    await this.#meterProvider.shutdown();
  }
}
