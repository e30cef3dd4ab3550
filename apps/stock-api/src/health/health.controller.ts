import { Controller, Get } from '@nestjs/common';
import {
  HealthCheck,
  type HealthCheckResult,
  HealthCheckService,
  TypeOrmHealthIndicator,
} from '@nestjs/terminus';
import { LockHealthIndicator } from 'nestjs-locked/terminus';

const PATIENCE_MS = 2_000;

/** Answers 503 while a request would fail. It names addresses, so keep it inside your network. */
@Controller('health')
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly database: TypeOrmHealthIndicator,
    private readonly locks: LockHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  check(): Promise<HealthCheckResult> {
    return this.health.check([
      () => this.database.pingCheck('database', { timeout: PATIENCE_MS }),
      () => this.locks.isHealthy('locks', { timeoutMs: PATIENCE_MS }),
    ]);
  }
}
