import { Injectable } from '@nestjs/common';
import { MurLock } from 'murlock';
import { Locked } from 'nestjs-locked';
import { LOCK_TIMEOUT_MS, Locks, SESSION_KEY } from './config.js';

class ObjectId {
  toHexString(): string {
    return '';
  }
}

interface Game {
  _id: ObjectId;
}

@Injectable()
export class GamesService {
  // A text of its own before the values.
  @Locked('game:<gameID>')
  async save(gameID: string, change: () => Promise<void>): Promise<void> {
    await change();
  }

  @Locked('session-tokens:<0>')
  async refresh(token: string): Promise<string> {
    return token;
  }

  @Locked('notes:<path>', { leaseMs: LOCK_TIMEOUT_MS })
  async write(path: string, content = path): Promise<string> {
    return content;
  }

  @Locked('lines:<0>')
  async line(x: number, { y }: { y: number }): Promise<number> {
    return x + y;
  }

  // What is left: an object, a list, a value at run time, a method that does not wait.
  @MurLock(5000, 'transition', 'game._id')
  async move(game: Game): Promise<void> {}

  @MurLock(5000, 'ids')
  async list(ids: string[]): Promise<void> {}

  @MurLock(5000, process.env.LOCK ?? 'lock')
  async named(): Promise<void> {}

  @MurLock(5000, 'id')
  sum(id: number): number {
    return id;
  }
}
