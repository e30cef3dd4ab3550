import {
  ConflictException,
  Controller,
  Get,
  Header,
  Injectable,
  Module,
  Param,
  Post,
  Query,
} from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { setTimeout as pause } from 'node:timers/promises';

/** Sells pieces. In place of a database, a map: it is read, and a moment later written. */
@Injectable()
export class ShopService {
  readonly log: string[] = [];
  readonly #pieces = new Map<string, number>();

  stockUp(id: string, pieces: number): void {
    this.#pieces.set(id, pieces);
  }

  /** Change the key to see what it does: with 'stock:<buyer>', nobody waits for anybody. */
  @Locked('stock:<id>')
  async buyLocked(id: string, buyer: string): Promise<string> {
    return this.buy(id, buyer);
  }

  /** Two calls at once read the same number, and both sell that piece. */
  async buy(id: string, buyer: string): Promise<string> {
    const pieces = this.#pieces.get(id) ?? 0;
    this.log.push(`  ${buyer} reads: ${pieces} left`);
    await pause(100); // a payment, for example
    if (pieces === 0) {
      this.log.push(`  ${buyer} is told: sold out`);
      throw new ConflictException('Sold out');
    }
    this.#pieces.set(id, pieces - 1);
    this.log.push(`  ${buyer} buys, and writes: ${pieces - 1} left`);
    return 'Sold';
  }
}

@Controller()
export class ShopController {
  constructor(private readonly shop: ShopService) {}

  @Get()
  @Header('content-type', 'text/plain')
  show(): string {
    return this.shop.log.join('\n');
  }

  @Post('unlocked/:id')
  buyUnlocked(@Param('id') id: string, @Query('buyer') buyer: string): Promise<string> {
    return this.shop.buy(id, buyer);
  }

  @Post('locked/:id')
  buyLocked(@Param('id') id: string, @Query('buyer') buyer: string): Promise<string> {
    return this.shop.buyLocked(id, buyer);
  }
}

@Module({
  // Locks in memory. An application connects to Redis here, and exchanges nothing else:
  // RedisLockModule.forRoot({ connection: 'redis://localhost:6379' })
  imports: [LockTestingModule.forRoot()],
  controllers: [ShopController],
  providers: [ShopService],
})
export class AppModule {}
