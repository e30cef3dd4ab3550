import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';

@Injectable()
export class LockedWork {
  @Locked('<key>')
  async do(key: string, work: () => Promise<void>): Promise<void> {
    await work();
  }
}
