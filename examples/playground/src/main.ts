import { NestFactory } from '@nestjs/core';
import { AppModule, ShopService } from './shop.module.js';

const port = Number(process.env['PORT'] ?? 3000);
const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
await app.listen(port);
const shop = app.get(ShopService);

await sellLastPiece('unlocked', 'Without a lock');
await sellLastPiece('locked', "With @Locked('stock:<id>')");
console.log(shop.log.join('\n'));
console.log(`\nThe same is at http://localhost:${port}`);

/** Two buyers send a request for the last pair of shoes at the same time. */
async function sellLastPiece(route: string, title: string): Promise<void> {
  shop.stockUp('shoes', 1);
  shop.log.push('', `${title}, two requests for the last pair of shoes:`);
  const requests = ['Ann', 'Bob'].map((buyer) =>
    fetch(`http://localhost:${port}/${route}/shoes?buyer=${buyer}`, { method: 'POST' }),
  );
  const sold = (await Promise.all(requests)).filter(({ ok }) => ok).length;
  shop.log.push(`  ${sold} sold of 1: ${sold > 1 ? 'oversold' : 'right'}`);
}
