import { LabIcon } from '@jupyterlab/ui-components';

import compactSvg from '../../style/icons/compact.svg';
import failedSvg from '../../style/icons/failed.svg';
import primeSvg from '../../style/icons/prime.svg';
import sendSvg from '../../style/icons/send.svg';
import thinkingSvg from '../../style/icons/thinking.svg';
import variableSvg from '../../style/icons/variable.svg';

export const primeIcon = new LabIcon({
  name: 'prime_ext:prime',
  svgstr: primeSvg
});
export const sendIcon = new LabIcon({
  name: 'prime_ext:send',
  svgstr: sendSvg
});
export const failedIcon = new LabIcon({
  name: 'prime_ext:failed',
  svgstr: failedSvg
});
export const thinkingIcon = new LabIcon({
  name: 'prime_ext:thinking',
  svgstr: thinkingSvg
});
export const compactIcon = new LabIcon({
  name: 'prime_ext:compact',
  svgstr: compactSvg
});
export const variableIcon = new LabIcon({
  name: 'prime_ext:variable',
  svgstr: variableSvg
});
