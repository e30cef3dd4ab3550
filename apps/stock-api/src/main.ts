import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { Settings } from './settings.js';

const app = await NestFactory.create(AppModule, { return503OnClosing: true });
app.enableShutdownHooks();

const { port, host } = app.get(Settings);
await app.listen(port, host);
Logger.log(`stock-api listens on ${await app.getUrl()}`);
