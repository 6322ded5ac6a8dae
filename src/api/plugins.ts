/* eslint-disable jupyter/prefer-lazy-imports -- sessions of the open notebooks are looked up at once */
import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IActiveSessions, ISessions, ISessionStreams } from '../tokens';
import { ActiveSessions } from './activeSessions';
import { PrimeApi } from './rest';
import { Sessions } from './sessions';
import { SessionStreams } from './stream';

/** Schema of the event that a session was started, by this page or another. */
const SESSION_START = 'https://events.jupyter.org/prime_ext/session_start/v1';

/** Schema of the event that the agent starts to work, waits for the user, or is done. */
const SESSION_ACTIVITY =
  'https://events.jupyter.org/prime_ext/session_activity/v1';

export const sessions: JupyterFrontEndPlugin<ISessions> = {
  id: 'prime_ext:sessions',
  description: 'The sessions of the Prime agent, by notebook.',
  autoStart: true,
  provides: ISessions,
  optional: [IStateDB, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    stateDB: IStateDB | null,
    translator: ITranslator | null
  ): ISessions => {
    const { events, serverSettings } = app.serviceManager;
    const trans = (translator ?? nullTranslator).load('prime_ext');
    const sessions = new Sessions(new PrimeApi(serverSettings, trans), stateDB);
    events.stream.connect((_, event) => {
      if (event.schema_id === SESSION_START) {
        const { notebook, session_id: id } = event;
        sessions.started(String(notebook), String(id)).catch(reason => {
          console.warn(`The choice of session ${id} was not kept.`, reason);
        });
      }
    });
    return sessions;
  }
};

export const activeSessions: JupyterFrontEndPlugin<IActiveSessions> = {
  id: 'prime_ext:active-sessions',
  description: 'The sessions in which the agent works or waits for a person.',
  autoStart: true,
  provides: IActiveSessions,
  activate: (app: JupyterFrontEnd): IActiveSessions => {
    const { events, serverSettings } = app.serviceManager;
    const active = new ActiveSessions(new PrimeApi(serverSettings));
    events.stream.connect((_, event) => {
      if (event.schema_id === SESSION_ACTIVITY) {
        active.refresh();
      }
    });
    return active;
  }
};

export const streams: JupyterFrontEndPlugin<ISessionStreams> = {
  id: 'prime_ext:streams',
  description: 'Live streams of the sessions of the Prime agent.',
  autoStart: true,
  provides: ISessionStreams,
  activate: (app: JupyterFrontEnd): ISessionStreams =>
    new SessionStreams(new PrimeApi(app.serviceManager.serverSettings))
};
