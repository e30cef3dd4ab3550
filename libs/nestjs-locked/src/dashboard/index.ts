/**
 * A page of the application that shows operators who holds and who waits, and lets them end a hold.
 *
 * @module nestjs-locked/dashboard
 */
export { LockDashboardModule } from './lock-dashboard.module.js';
export type {
  DashboardAccess,
  DashboardOperator,
  LockDashboardOptions,
} from './lock-dashboard.options.js';
export type { DashboardRole } from './dashboard-messages.js';
