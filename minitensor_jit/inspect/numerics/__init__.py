"""The numbers of launches: checked, printed, and compared with those of the ops run one by one."""
