export class ConfigService {
  get(name: string): any {
    return process.env[name];
  }
}

export const SESSION_KEY = 'session-tokens';
export const LOCK_TIMEOUT_MS = 45_000;
export enum Locks {
  Notes = 'notes',
}
