"""What the functions of a trainable module are called, and the attributes that tell of them."""

BACKBONE = "backbone"  # the model as it predicts
BACKBONE_LOSS = "backbone_loss"  # the loss of the model in training
ADJOINT = "backbone_loss_adjoint"  # that loss, and its gradients by the parameters
OPTIMIZER = "optimizer"  # (params, gradients, optim_states[, loss]) -> (new params, new states)
TRAIN_STEP = "train_step"  # all of these at once
EVALUATE = "evaluate"  # the loss and the outputs of the model as it predicts

INPUT_NUM, PARAM_NUM, STATE_NUM = "input_num", "param_num", "state_num"
OPTIM_STATE = "optim_state"  # the first state of the optimizer
OPTIM_STATE_NAMES = "optim_state_names"  # what its states are, by which a checkpoint knows it
MADE_OF = "made_of"  # digests of the model, loss and optimizer as the user gave them
LOSS_SCALE = "loss_scale"  # the adjoint takes the scale of the loss: a number, or "dynamic"

STORED_PARAMS = "stored_params"  # where each parameter is, unless each is an array as it is
STORED_OPTIM_STATES = "stored_optim_states"  # where each state of the optimizer is, likewise

CLASS_IDS = "class_ids"  # which targets are ids of classes
ROW_IDS = "row_ids"  # which inputs and targets pick rows of a table
COMPARES_CLASSES = "compares_classes"  # the targets are of classes: accuracy can be measured
LOSS_WEIGHTS = "loss_weights"  # the name of the target that weighs the mean of the loss
LOSS_TAKES = "loss_takes"  # of what the loss is, such as probabilities

MESH = "mesh"  # the axes of the devices that the training is on, with their sizes
MESH_DEVICES = "mesh_devices"  # the numbers of these devices, unless they are JAX's first ones
BATCH_AXES = "batch_axes"  # those axes along which the samples of a batch are spread
SHARDINGS = "shardings"  # which arrays are split along which axes; the others are whole everywhere
