import { Injectable } from '@nestjs/common';

/** In place of a ConfigService. */
@Injectable()
export class Configuration {
  get(name: string): string {
    const value = process.env[name];
    if (value === undefined) throw new Error(`${name} is not set`);
    return value;
  }
}
