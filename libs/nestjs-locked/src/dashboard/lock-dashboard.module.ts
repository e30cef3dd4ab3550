import {
  ConfigurableModuleBuilder,
  Inject,
  type MiddlewareConsumer,
  Module,
  type NestModule,
  type OnModuleDestroy,
  type OnModuleInit,
  Optional,
  RequestMethod,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { LockConfigError } from '../core/lock.errors.js';
import { hasLockOverview } from '../core/lock-overview.js';
import { assertOptions } from '../core/option.js';
import { findLockService, noLockModule } from '../nest/decorator/find-lock-service.js';
import type { LockService } from '../nest/lock.service.js';
import { Dashboard, PARTS } from './dashboard.js';
import { DASHBOARD_OPTIONS, type LockDashboardOptions } from './lock-dashboard.options.js';

const OPTIONS_TOKEN = Symbol.for('nestjs-locked/LockDashboardOptions');

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<LockDashboardOptions>({
  moduleName: 'LockDashboard',
  optionsInjectionToken: OPTIONS_TOKEN,
}).build();

/**
 * Shows operators the locks of an application, on a page below the global prefix. Import it in the root module, once
 * for each lock module.
 *
 * @example LockDashboardModule.register({
 *   path: '/locks',
 *   authorize: (request) => (isOperator(request) ? 'admin' : undefined),
 * })
 * @example LockDashboardModule.registerAsync({
 *   imports: [AuthModule],
 *   inject: [AuthService],
 *   useFactory: (auth: AuthService) => ({
 *     path: '/locks',
 *     authorize: ({ headers }) => auth.operatorOf(headers.cookie),
 *   }),
 * })
 *
 * The application does not start if an option is wrong, or if there is no such lock module (`LockConfigError`).
 */
@Module({})
export class LockDashboardModule
  extends ConfigurableModuleClass
  implements NestModule, OnModuleInit, OnModuleDestroy
{
  readonly #options: LockDashboardOptions;
  readonly #modules: ModuleRef;
  readonly #dashboard: Dashboard;

  /** Called by Nest. @throws LockConfigError for a wrong option */
  constructor(
    @Optional() @Inject(OPTIONS_TOKEN) options: LockDashboardOptions | undefined,
    @Inject(ModuleRef) modules: ModuleRef,
  ) {
    super();
    if (options === undefined) {
      throw new LockConfigError(
        "LockDashboardModule was imported without options; write LockDashboardModule.register({ path: '/locks', authorize }), or return these from the useFactory of registerAsync: a body in braces needs 'return'",
      );
    }
    assertOptions(DASHBOARD_OPTIONS, options, { owner: 'LockDashboardModule' });
    this.#options = options;
    this.#modules = modules;
    this.#dashboard = new Dashboard(options);
  }

  /** Mounts the page as a middleware, in which no guard, pipe, interceptor or filter of the application has a part. */
  configure(consumer: MiddlewareConsumer): void {
    const { path } = this.#options;
    // A path without a method would stand for all that are below it. With strict routing, the slash makes another one.
    const routes = [path, ...['', ...PARTS].map((part) => `${path}/${part}`)];
    consumer
      .apply(this.#dashboard.middleware)
      .forRoutes(...routes.map((route) => ({ path: route, method: RequestMethod.ALL })));
  }

  /** Begins to record what happens to the locks. */
  onModuleInit(): void {
    this.#dashboard.open(this.#locks());
  }

  /** Ends the streams of events, which would hold up the end of the server. */
  onModuleDestroy(): void {
    this.#dashboard.close();
  }

  #locks(): LockService {
    const { service } = this.#options;
    const locks = findLockService(this.#modules, service);
    if (hasLockOverview(locks)) return locks as LockService;
    throw new LockConfigError(
      locks === undefined
        ? `LockDashboardModule cannot show locks: ${noLockModule(service)}`
        : 'LockDashboardModule cannot show locks: LockService is mocked; use LockTestingModule of nestjs-locked/testing, or leave the dashboard out',
    );
  }
}
