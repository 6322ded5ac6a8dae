/* eslint-disable jupyter/prefer-lazy-imports -- sessions of the open notebooks are looked up at once */
import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStateDB } from '@jupyterlab/statedb';

import { ISessions, ISessionStreams } from '../tokens';
import { PrimeApi } from './rest';
import { Sessions } from './sessions';
import { SessionStreams } from './stream';

export const sessions: JupyterFrontEndPlugin<ISessions> = {
  id: 'prime_ext:sessions',
  description: 'The sessions of the Prime agent, by notebook.',
  autoStart: true,
  provides: ISessions,
  optional: [IStateDB],
  activate: (app: JupyterFrontEnd, stateDB: IStateDB | null): ISessions =>
    new Sessions(new PrimeApi(app.serviceManager.serverSettings), stateDB)
};

export const streams: JupyterFrontEndPlugin<ISessionStreams> = {
  id: 'prime_ext:streams',
  description: 'Live streams of the sessions of the Prime agent.',
  autoStart: true,
  provides: ISessionStreams,
  activate: (app: JupyterFrontEnd): ISessionStreams =>
    new SessionStreams(new PrimeApi(app.serviceManager.serverSettings))
};
